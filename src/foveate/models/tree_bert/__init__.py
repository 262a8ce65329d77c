"""TreeBert: a BERT that reads documents as trees, registered with the Auto classes."""

from transformers import AutoConfig, AutoModel, AutoProcessor

from foveate.preprocessing.tree_bert import TreeBertProcessor

from .configuration_tree_bert import TreeBertConfig
from .modeling_tree_bert import TreeBertModel, TreeBertOutput, TreeBertPreTrainedModel

__all__ = ["TreeBertConfig", "TreeBertModel", "TreeBertOutput", "TreeBertPreTrainedModel"]

AutoConfig.register("tree_bert", TreeBertConfig)
AutoModel.register(TreeBertConfig, TreeBertModel)
AutoProcessor.register(TreeBertConfig, TreeBertProcessor)
