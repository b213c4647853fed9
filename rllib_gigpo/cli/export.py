"""`rllib export`: writes the model of a checkpoint as a Hugging Face directory."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rllib_gigpo.cli.checkpoint import checkpoint_class
from rllib_gigpo.cli.errors import reported_errors
from rllib_gigpo.cli.waiting import waiting

if TYPE_CHECKING:
    from rllib_gigpo.rl_modules.model_directory import DtypeName

_MODULES = Path("learner_group", "learner", "rl_module")
_MODEL = "huggingface"


def export(
    checkpoint: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="Folder with rllib_checkpoint.json in it.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write, which must not exist or be empty.")],
    merge: Annotated[bool, typer.Option("--merge", help="Add a LoRA adapter to the model below it.")] = False,
    model_path: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The model below the adapter. Default: where training found it.")
    ] = None,
    module: Annotated[
        str | None, typer.Option(metavar="ID", help="Of several modules, the one to write. Default: all of them.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Tracebacks of errors.")] = False,
) -> None:
    """Write the model of a checkpoint as a Hugging Face directory.

    A model that was trained with LoRA is written as the PEFT directory of its adapter, or with --merge as a whole
    model. Of several modules, each gets a folder of its own in OUT. Needs no Ray, and loads no pickle.

    Example: rllib export runs/my_run/checkpoint my_model
    """
    with reported_errors(verbose):
        models = _models(checkpoint, module)
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise ValueError(f"{out} exists and is not an empty folder; name another")
        if out.resolve().is_relative_to(checkpoint.resolve()):
            raise ValueError(f"{out} is in the checkpoint, which stays as it is; name a folder elsewhere")
        if model_path is not None and not merge:
            raise ValueError(f"--model-path {model_path} does nothing without --merge")
        if model_path is not None and not any(map(_is_adapter, models.values())):
            raise ValueError(f"--model-path {model_path} does nothing: checkpoint {checkpoint} has no LoRA adapter")
        written = []
        for name, model in models.items():
            target = out if len(models) == 1 else out / name
            is_adapter = _is_adapter(model)
            if is_adapter and merge:
                with waiting("adding the adapter to the model", hidden=verbose):
                    _merge(model, target, model_path)
            else:
                shutil.copytree(model, target, dirs_exist_ok=True)
            _let_others_read(target)
            kind = "model" if merge or not is_adapter else "adapter"
            written.append({"module": name, "kind": kind, "path": str(target.absolute())})
            if not as_json:
                typer.echo(f"{kind}: {target}")
        if as_json:
            typer.echo(json.dumps(written, indent=2))


def _models(checkpoint: Path, module: str | None) -> dict[str, Path]:
    """The model directory of every module of a whole checkpoint, or of `module` alone, by the module's id."""
    checkpoint_class(checkpoint)
    models = {folder.parent.name: folder for folder in sorted((checkpoint / _MODULES).glob(f"*/{_MODEL}"))}
    if not models:
        raise ValueError(f"there is no {_MODULES / '*' / _MODEL} in checkpoint {checkpoint}")
    if module is not None and module not in models:
        raise ValueError(f"--module {module} is not in checkpoint {checkpoint}; it has {', '.join(models)}")
    return models if module is None else {module: models[module]}


def _is_adapter(model: Path) -> bool:
    from rllib_gigpo.rl_modules.lora import ADAPTER_CONFIG_FILE

    return (model / ADAPTER_CONFIG_FILE).is_file()


def _merge(adapter: Path, target: Path, model_path: Path | None) -> None:
    """Writes the model with the adapter added, in the type that the model is stored in, and its tokenizer."""
    from rllib_gigpo.rl_modules.lora import merged_model, read_adapter_config
    from rllib_gigpo.rl_modules.model_directory import (
        copy_processor_files,
        load_causal_lm,
        load_tokenizer,
        validate_model_directory,
    )

    config = read_adapter_config(adapter)
    base = model_path or Path(config["base_model_name_or_path"])
    if not base.is_dir():
        raise ValueError(f"the model below the adapter, {base}, is not there: name its folder with --model-path")
    validate_model_directory(base)
    merged = merged_model(load_causal_lm(base, dtype=_stored_dtype(base)), adapter)
    merged.save_pretrained(str(target))
    copy_processor_files(base, target)
    load_tokenizer(adapter).save_pretrained(str(target))


def _let_others_read(target: Path) -> None:
    """Gives the weights the permissions of the other files: safetensors writes them for the owner alone, and a server
    in a container is often somebody else."""
    for weights in target.glob("*.safetensors"):
        shutil.copymode(target / "tokenizer_config.json", weights)


def _stored_dtype(model: Path) -> DtypeName:
    from rllib_gigpo.rl_modules.model_directory import DTYPE_NAMES

    config: dict[str, Any] = json.loads((model / "config.json").read_text(encoding="utf-8"))
    # The name that transformers wrote before version 5.
    name = config.get("dtype") or config.get("torch_dtype")
    return name if name in DTYPE_NAMES else "float32"
