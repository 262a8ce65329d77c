"""Which checkpoints have the parameters that a model takes."""

from collections.abc import Collection


def check_family(model_type: str | None, known: Collection[str]) -> None:
    """Refuse the configuration of a model whose parameters are others.

    Raises:
        ValueError: a type that is not among the known ones.
    """
    if model_type is not None and model_type not in known:
        raise ValueError(
            f"a {model_type} model has other parameters than these: name a checkpoint of "
            f"{' or '.join(sorted(known))}"
        )
