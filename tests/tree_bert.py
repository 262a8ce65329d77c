"""Small random checkpoints of BERT and TreeBert."""

import torch
from transformers import BertConfig, BertModel

from foveate.models.tree_bert import TreeBertConfig, TreeBertModel
from foveate.preprocessing import TreeBertProcessor

SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "initializer_range": 0.2,
    "salience_size": 8,
}


def tree_bert(**options):
    """Make a TreeBert whose additions to BERT are random as well."""
    torch.manual_seed(0)
    model = TreeBertModel(TreeBertConfig(**{"vocab_size": 60, **SIZES, **options})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
        model.pooling.sentence += torch.randn_like(model.pooling.sentence)
    return model


def save_bert(folder, tokenizer, **options):
    """Save a random BERT with a tokenizer."""
    torch.manual_seed(0)
    sizes = {name: size for name, size in SIZES.items() if name != "salience_size"}
    model = BertModel(BertConfig(**{"vocab_size": len(tokenizer), **sizes, **options})).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model


def save_tree_bert(folder, tokenizer, passage_tokens=448, **options):
    """Save a random TreeBert with its processor."""
    model = tree_bert(vocab_size=len(tokenizer), **options)
    model.save_pretrained(folder)
    TreeBertProcessor(tokenizer, passage_tokens=passage_tokens).save_pretrained(folder)
    return model
