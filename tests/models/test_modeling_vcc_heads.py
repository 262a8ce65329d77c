"""Models with a head, and how they are trained."""

import inspect

import pytest
import torch
import transformers
from safetensors.torch import load_file
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    RobertaForMaskedLM,
    RobertaPreLayerNormConfig,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
)

from foveate.models.vcc import (
    AutoModelForHotpotQA,
    VccRobertaConfig,
    VccRobertaForHotpotQA,
    VccRobertaForMaskedLM,
    VccRobertaForMultipleChoice,
    VccRobertaForQuestionAnswering,
    VccRobertaForSequenceClassification,
    VccRobertaModel,
    VccT5Config,
    VccT5ForConditionalGeneration,
)
from tests.models.test_modeling_vcc import ALL, BERT, SHORT, T5, first, ids_of, made
from tests.numerics import relative_error

HEADS = {
    VccRobertaForMaskedLM: AutoModelForMaskedLM,
    VccRobertaForSequenceClassification: AutoModelForSequenceClassification,
    VccRobertaForQuestionAnswering: AutoModelForQuestionAnswering,
}
QUESTIONS = {
    VccRobertaForMultipleChoice: AutoModelForMultipleChoice,
    VccRobertaForHotpotQA: AutoModelForHotpotQA,
}


def question_targets(head):
    """What a head for questions takes, for two sequences of 40 tokens."""
    if head is VccRobertaForMultipleChoice:
        choice_mask = torch.zeros(2, 40, dtype=torch.long)
        choice_mask[0, [2, 5, 9]] = choice_mask[1, [3, 4, 7]] = 1
        return {"choice_mask": choice_mask, "labels": torch.tensor([2, 1])}
    parts = torch.full((2, 40), -100)
    parts[:, 10], parts[:, 20] = 0, 1
    return {
        "start_positions": torch.tensor([3, -100]),
        "end_positions": torch.tensor([4, -100]),
        "answer_types": torch.tensor([2, 1]),
        "sentence_labels": parts,
        "paragraph_labels": parts,
    }


@pytest.mark.parametrize("family", ["roberta", "roberta-prelayernorm"])
@pytest.mark.parametrize(("head", "auto"), (HEADS | QUESTIONS).items())
def test_heads(family, head, auto, tmp_path):
    """Trained from the encoder's folder, they have losses, and save and load."""
    made(family).save_pretrained(tmp_path / "encoder")
    model = head.from_pretrained(tmp_path / "encoder", dtype=torch.float64)
    ids, vips = ids_of(2, 40), first(40, 2, 2)
    labels = {"labels": torch.tensor([0, 1])}
    if "Masked" in head.__name__:
        labels = {"labels": ids}
    elif "Question" in head.__name__:
        labels = {"start_positions": torch.tensor([3, 5]), "end_positions": torch.tensor([4, 9])}
    elif head in QUESTIONS:
        labels = question_targets(head)
    out = model.train()(ids, vip_mask=vips, **labels)
    out.loss.backward()
    assert torch.isfinite(out.loss)
    assert model.base_model.encoder.layer[2].attention.self.query.weight.grad.abs().sum() > 0
    model.eval().save_pretrained(tmp_path / "head")
    loaded = auto.from_pretrained(tmp_path / "head", dtype=torch.float64)
    assert type(loaded) is head
    with torch.no_grad():
        masks = {name: mask for name, mask in labels.items() if name == "choice_mask"}
        a = model(ids, vip_mask=vips, output_hidden_states=True, **masks)
        b = loaded(ids, vip_mask=vips, **masks)
        others = torch.arange(40).expand_as(vips) > 36
        elsewhere = model(ids, vip_mask=others, **masks)
    assert relative_error(a[0], b[0]) < 1e-14
    assert len(a.hidden_states) == model.config.num_hidden_layers + 1
    assert relative_error(a[0], elsewhere[0]) > 1e-9


@pytest.mark.parametrize("head", HEADS)
def test_checkpoints_with_norms_first(head, tmp_path):
    """Loaded from transformers' names, they equal its model, and are saved in their own names."""
    name = head.__name__.replace("VccRoberta", "RobertaPreLayerNorm")
    torch.manual_seed(0)
    plain = getattr(transformers, name)(RobertaPreLayerNormConfig(**BERT)).double().eval()
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter += torch.randn_like(parameter) / 10
    plain.save_pretrained(tmp_path / "plain")
    model, info = head.from_pretrained(
        tmp_path / "plain", dtype=torch.float64, output_loading_info=True, **ALL
    )
    assert not any(info.values())
    model.save_pretrained(tmp_path / "ours")
    resumed = head(VccRobertaConfig.from_pretrained(tmp_path / "ours")).double().eval()
    weights = load_file(tmp_path / "ours" / "model.safetensors")
    missing, unexpected = resumed.load_state_dict(weights, strict=False)  # as Trainer resumes
    assert not unexpected
    assert all(name.startswith("lm_head.decoder.") for name in missing)  # which is tied
    loaded = head.from_pretrained(tmp_path / "ours", dtype=torch.float64)
    ids, mask = ids_of(2, 40), torch.ones(2, 40, dtype=torch.long)
    mask[1, 31:] = 0
    with torch.no_grad():
        expected = plain(ids, attention_mask=mask)[0]
        outputs = [one(ids, attention_mask=mask)[0] for one in (model, resumed, loaded)]
    real = mask.bool() if expected.shape[:2] == (2, 40) else ...
    for output in outputs:
        assert relative_error(output[real], expected[real]) < 1e-12


def test_choices_are_scored_at_their_tokens():
    """As the published code: an unbiased linear layer there, and nothing beyond the choices."""
    torch.manual_seed(0)
    model = VccRobertaForMultipleChoice(VccRobertaConfig(**BERT, **SHORT)).double().eval()
    ids, targets = ids_of(2, 40), question_targets(VccRobertaForMultipleChoice)
    targets["choice_mask"][1, 7] = 0
    out = model(ids, vip_mask=first(40, 12, 2), **targets)
    scores = model.classifier(model.roberta(ids, vip_mask=first(40, 12, 2))[0])[..., 0]
    one, other = scores[0, [2, 5, 9]], scores[1, [3, 4]]
    assert model.classifier.bias is None
    assert relative_error(out.logits[0], one) < 1e-12
    assert relative_error(out.logits[1, :2], other) < 1e-12
    assert out.logits[1, 2] == -torch.inf
    expected = -(one.log_softmax(0)[2] + other.log_softmax(0)[1]) / 2
    assert relative_error(out.loss, expected) < 1e-12


def test_losses_of_hotpotqa_are_means_over_what_counts():
    torch.manual_seed(0)
    model = VccRobertaForHotpotQA(VccRobertaConfig(**BERT, **SHORT)).double().eval()
    ids, mask = ids_of(2, 40), ~first(40, 0, 2)
    mask[1, 31:] = False
    targets = question_targets(VccRobertaForHotpotQA)
    inputs = {"attention_mask": mask, "vip_mask": first(40, 12, 2)}
    out = model(ids, **inputs, **targets)
    assert (out.start_logits[1, 31:] == torch.finfo(torch.float64).min).all()
    span = -(out.start_logits[0].log_softmax(0)[3] + out.end_logits[0].log_softmax(0)[4]) / 2
    types = -out.answer_type_logits.log_softmax(1)[[0, 1], [2, 1]].mean()
    parts = sum(
        -logits.log_softmax(2)[:, [10, 20], [0, 1]].mean()
        for logits in (out.sentence_logits, out.paragraph_logits)
    )
    assert relative_error(out.loss, span + types + parts) < 1e-12
    nothing = {name: torch.full_like(target, -100) for name, target in targets.items()}
    assert model(ids, **inputs, **nothing).loss == 0


def test_logits_of_labelled_tokens_only():
    ids, vips = ids_of(2, 20), torch.zeros(2, 20, dtype=torch.bool)
    vips[0, [4, 7]] = vips[1, 11] = True
    inputs = {"vip_mask": vips, "labels": ids.masked_fill(~vips, -100)}
    model = VccRobertaForMaskedLM(VccRobertaConfig(**BERT, **SHORT)).double().eval()
    dense = model(ids, vip_mask=vips).logits
    assert dense.shape[:2] == (2, 20)
    published = RobertaForMaskedLM.forward(model, ids, **inputs)
    assert relative_error(published.logits, dense) < 1e-12
    full = model(ids, **inputs)
    assert relative_error(full.logits, dense) < 1e-12
    assert relative_error(full.loss, published.loss) < 1e-12
    model.config.sparse_prediction = True
    output = model(ids, **inputs)
    assert relative_error(output.logits, dense[vips]) < 1e-12
    assert relative_error(output.loss, published.loss) < 1e-12
    slopes = []
    for loss in (output.loss, published.loss):
        model.zero_grad()
        loss.backward()
        slopes.append([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    assert relative_error(*map(torch.cat, slopes)) < 1e-12


def test_the_first_real_token_is_classified():
    torch.manual_seed(0)
    model = VccRobertaForSequenceClassification(VccRobertaConfig(**BERT, **SHORT)).double().eval()
    ids, mask = ids_of(2, 20), ~first(25, 5, 2)
    padded, vips = torch.cat([ids_of(2, 5), ids], 1), mask & first(25, 6, 2)
    with torch.no_grad():
        out, alone = model(padded, attention_mask=mask, vip_mask=vips), model(ids)
    assert relative_error(out.logits, alone.logits) < 1e-12
    assert relative_error(*alone.logits) > 1e-6


def test_arguments_that_would_do_nothing_are_refused():
    model = VccRobertaForSequenceClassification(VccRobertaConfig(**BERT, **SHORT)).eval()
    with pytest.raises(ValueError, match="output_vip_scores is an argument of encoders only"):
        model(ids_of(1, 20), output_vip_scores=True)
    with pytest.raises(ValueError, match="attention weights are never materialized"):
        model(ids_of(1, 20), output_attentions=True)
    as_tuple = model(ids_of(1, 20), output_hidden_states=True, return_dict=False)
    assert isinstance(as_tuple, tuple)
    assert len(as_tuple[1]) == 4


def trained(model, data, folder, **arguments):
    """The Trainer, after training and evaluation by its own defaults, and what it evaluated."""
    arguments = TrainingArguments(
        folder,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        **arguments,
    )
    trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data)
    trainer.train()
    return trainer, trainer.evaluate()


def test_trainer(tmp_path):
    torch.manual_seed(0)
    model = VccT5ForConditionalGeneration(VccT5Config(**T5, **SHORT))
    vips = first(40, 2)[0].long()
    data = [{"input_ids": row, "vip_mask": vips, "labels": row[5:9]} for row in ids_of(8, 40)]
    arguments = {"num_train_epochs": 8, "learning_rate": 1e-2, "logging_steps": 2}
    trainer, evaluated = trained(model, data, tmp_path, per_device_train_batch_size=4, **arguments)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0] - 0.3
    assert evaluated["eval_loss"] < losses[0] - 0.3


@pytest.mark.parametrize(
    ("head", "labels"),
    [
        (VccRobertaForSequenceClassification, {"labels": torch.tensor(1)}),
        (
            VccRobertaForQuestionAnswering,
            {"start_positions": torch.tensor(6), "end_positions": torch.tensor(7)},
        ),
    ],
)
def test_trainer_passes_the_vip_tokens_to_heads(head, labels, tmp_path, monkeypatch):
    seen, forward = [], VccRobertaModel.forward

    def spy(self, *arguments, **named):
        seen.append(named.get("vip_mask"))
        return forward(self, *arguments, **named)

    monkeypatch.setattr(VccRobertaModel, "forward", spy)
    model = head(made("roberta").config)
    vips = first(40, 5)[0].long()
    data = [{"input_ids": row, "vip_mask": vips, **labels} for row in ids_of(2, 40)]
    _, evaluated = trained(model, data, tmp_path, max_steps=1)
    assert evaluated["eval_loss"] > 0
    assert len(seen) == 2
    assert all(torch.equal(mask, vips.expand(2, -1)) for mask in seen)


def test_arguments_are_in_the_order_of_t5():
    """Up to the cache, whose name depends on the version of transformers."""
    ours = list(inspect.signature(VccT5ForConditionalGeneration.forward).parameters)
    theirs = list(inspect.signature(T5ForConditionalGeneration.forward).parameters)
    assert ours[:6] == theirs[:6]
