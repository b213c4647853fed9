"""The vision-language RLModule and its learner: equal to plain transformers, whatever is padded, shared or frozen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID

from rllib_gigpo.images import ImageStore
from rllib_gigpo.learners.response_scores import micro_batch_tensors
from rllib_gigpo.rl_modules.causal_lm_facade import CausalLMFacade, facade_spec
from rllib_gigpo.rl_modules.causal_lm_rl_module import CausalLMRLModule, causal_lm_spec
from rllib_gigpo.rl_modules.critic_rl_module import critic_spec
from rllib_gigpo.rl_modules.lora import LoraSettings
from rllib_gigpo.rl_modules.weights import check_weights
from rllib_gigpo.rows import TokenRows
from rllib_gigpo.vlm.vision_language_rl_module import VisionLanguageRLModule
from tests.learner_cases import batch_of, build_learner_group, weights_of
from tests.tiny_models import save_tiny_model, save_tiny_vlm
from tests.vision_cases import FIRST, SECOND, image_rows, log_probs, plain_log_probs, prompt_of, random_image

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_vlm(tmp_path_factory.mktemp("qwen2_5_vl"))


@pytest.fixture(scope="module")
def module(directory: Path) -> CausalLMRLModule:
    return causal_lm_spec(str(directory)).build()


@pytest.mark.parametrize("model_type", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl"])
def test_padded_rows_have_the_log_probs_of_plain_transformers(model_type: str, tmp_path: Path) -> None:
    module = causal_lm_spec(str(save_tiny_vlm(tmp_path, model_type=model_type))).build()
    assert isinstance(module, VisionLanguageRLModule)
    rows = image_rows(module)
    with torch.no_grad():
        plain = torch.cat([plain_log_probs(module, rows, row) for row in range(len(rows))])
        # Logits are of size 5; padding changes the shape of matrix products, and so their rounding.
        torch.testing.assert_close(log_probs(module, rows), plain, atol=2e-5, rtol=0)


@pytest.mark.parametrize("model_type", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl"])
def test_each_row_has_the_gradient_of_plain_transformers(model_type: str, tmp_path: Path) -> None:
    """In a padded micro-batch whose rows share images."""
    module = causal_lm_spec(str(save_tiny_vlm(tmp_path, model_type=model_type))).build()
    rows = image_rows(module)

    def gradients(loss: torch.Tensor) -> dict[str, torch.Tensor]:
        module.lm.zero_grad()
        loss.backward()
        # A text does not pass the tower: here its gradient is 0, there is none in transformers' pass.
        return {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in module.lm.named_parameters()}

    ends = np.cumsum(rows.response_lengths)
    for row, (end, length) in enumerate(zip(ends, rows.response_lengths, strict=True)):
        plain = gradients(plain_log_probs(module, rows, row).mean())
        ours = gradients(log_probs(module, rows)[end - length : end].mean())
        tower = max(float(gradient.abs().max()) for name, gradient in plain.items() if ".visual." in name)
        assert (tower > 1e-2) == bool(rows.images[row])
        for name, gradient in plain.items():
            torch.testing.assert_close(ours[name], gradient, atol=1e-5, rtol=0, msg=f"row {row}, {name}")


def test_the_image_matters(module: CausalLMRLModule) -> None:
    rows = image_rows(module)
    other = rows.take(np.arange(4))
    other.images[0] = (ImageStore().add(random_image(seed=7)),)
    with torch.no_grad():
        changed = (log_probs(module, other) - log_probs(module, rows.take(np.arange(4)))).abs() > 1e-3
    assert changed[:4].all() and not changed[4:].any()


@pytest.mark.parametrize(("frozen", "checkpointed"), [(False, False), (True, False), (False, True)])
def test_an_update_takes_the_gradient_of_plain_transformers(directory: Path, frozen: bool, checkpointed: bool) -> None:
    module = causal_lm_spec(str(directory)).build()
    rows = image_rows(module)
    loss = torch.zeros(())
    for row in range(len(rows)):
        loss = loss - float(rows.advantages[row]) * plain_log_probs(module, rows, row).sum()
    (loss / rows.num_response_tokens).backward()
    expected = {name: parameter.grad for name, parameter in module.lm.named_parameters()}
    assert expected["model.visual.patch_embed.proj.weight"].abs().max() > 1e-3

    # Two micro-batches, so that an image is in both of them.
    group = build_learner_group(
        directory,
        micro_batch_tokens=160,
        lr=1.0,
        freeze_vision_tower=frozen,
        gradient_checkpointing=checkpointed,
    )
    before = weights_of(group)
    group.update(batch=batch_of(rows))
    for name, after in weights_of(group).items():
        gradient = np.zeros_like(after) if frozen and ".visual." in name else expected[name].numpy()
        np.testing.assert_allclose(before[name] - after, gradient, atol=1e-5, err_msg=name)


def test_a_placeholder_that_was_sampled_is_a_token_like_any_other(module: CausalLMRLModule) -> None:
    """Whether it comes with the row's images or without any."""
    rows = image_rows(module)
    placeholder = module.lm.config.image_token_id
    rows.token_ids[np.cumsum(rows.lengths) - 2] = placeholder
    alone = rows.take(np.array([4]))
    with torch.no_grad():
        together = log_probs(module, rows)
        torch.testing.assert_close(together[-3:], log_probs(module, alone), atol=2e-5, rtol=0)
        # Not one of transformers' forward passes takes such a row with images: it counts all placeholders.
        with pytest.raises(ValueError, match="do not match"):
            plain_log_probs(module, rows, 0)
    assert torch.isfinite(together).all()


def test_every_weight_of_the_tower_has_a_gradient_though_no_row_has_an_image(directory: Path) -> None:
    """DDP waits for it."""
    for model_type in ("qwen2_5_vl", "qwen3_vl"):
        own = save_tiny_vlm(directory / model_type, model_type=model_type)
        module = causal_lm_spec(str(own)).build()
        rows = image_rows(module, texts_only=True)
        log_probs(module, rows).sum().backward()
        without = [name for name, parameter in module.lm.named_parameters() if parameter.grad is None]
        assert without == []
        assert float(module.lm.model.visual.patch_embed.proj.weight.grad.abs().max()) == 0.0


@pytest.mark.parametrize("frozen", [False, True])
def test_an_adapter_learns_and_its_base_stays(directory: Path, frozen: bool) -> None:
    lora = LoraSettings(rank=2)
    group = build_learner_group(directory, lora=lora, kl_coeff=0.1, freeze_vision_tower=frozen)
    before = weights_of(group)
    assert any(".visual." in name for name in before) is not frozen
    rows = image_rows(causal_lm_spec(str(directory)).build())
    results = group.update(batch=batch_of(rows))
    after = weights_of(group)
    changed = {name for name in after if not np.array_equal(before[name], after[name])}
    # The other half of an adapter is 0 at first, so that nothing flows to this one.
    assert changed == {name for name in before if ".lora_B." in name}
    assert float(results[0][DEFAULT_MODULE_ID]["kl_to_reference"].peek()) == pytest.approx(0.0, abs=1e-6)


def test_values_of_a_critic_are_those_of_plain_transformers(directory: Path, module: CausalLMRLModule) -> None:
    critic = critic_spec(causal_lm_spec(str(directory))).build()
    with torch.no_grad():
        critic.head.weight.copy_(torch.linspace(-1, 1, 64)[None])
    rows = image_rows(module)
    batch = micro_batch_tensors(rows, pad_id=module.tokenizer.pad_token_id, device="cpu")
    with torch.no_grad():
        values = critic.forward_train(batch)["values"]
        # The logits of a model whose output layer is the critic's head in each of its rows are its values.
        plain = causal_lm_spec(str(directory)).build()
        plain.lm.lm_head.weight = torch.nn.Parameter(critic.head.weight.expand(len(module.tokenizer), -1).clone())
        logits = plain.response_logits(plain.lm, batch)
    torch.testing.assert_close(values, logits[:, 0], atol=2e-5, rtol=0)


def test_the_facade_of_a_module_knows_its_weights_and_images(directory: Path, module: CausalLMRLModule) -> None:
    facade = facade_spec(causal_lm_spec(str(directory))).build()
    assert isinstance(facade, CausalLMFacade) and isinstance(facade, VisionLanguageRLModule)
    assert facade.get_state() == {} and all(parameter.is_meta for parameter in facade.lm.parameters())
    check_weights(facade.lm, module.get_state())
    np.testing.assert_array_equal(facade.probe().token_ids, module.probe().token_ids)


def test_rows_and_images_that_do_not_belong_together_are_an_error(module: CausalLMRLModule) -> None:
    rows = image_rows(module)
    rows.images[0] = rows.images[2]
    with pytest.raises(ValueError, match=r"row 0 of a batch has runs of \[6\] image tokens .* images take \[6, 6\]"):
        log_probs(module, rows)


def test_an_engine_that_expands_placeholders_gets_one_per_image(module: CausalLMRLModule) -> None:
    image = ImageStore().add(random_image())
    ids, images = prompt_of(module, f"{FIRST}a{SECOND}", [image, image])
    collapsed = module.with_placeholders(ids, images)
    assert len(ids) - len(collapsed) == 10 and (collapsed == module.lm.config.image_token_id).sum() == 2
    np.testing.assert_array_equal(module.with_image_tokens(collapsed, images), ids)


def test_more_placeholders_than_images_are_an_error(module: CausalLMRLModule) -> None:
    image = ImageStore().add(random_image())
    ids, _ = prompt_of(module, f"{FIRST}{SECOND}", [image, image])
    with pytest.raises(ValueError, match=r"12 image placeholders .* for 1 images"):
        module.with_image_tokens(ids, [image])


def test_ids_are_those_of_the_official_processor(module: CausalLMRLModule, directory: Path) -> None:
    pytest.importorskip("torchvision", exc_type=ImportError)
    from PIL import Image
    from transformers import Qwen2_5_VLProcessor, Qwen2VLImageProcessor, Qwen2VLVideoProcessor

    small, large = random_image(), random_image(84, 84, seed=1)
    processor = Qwen2_5_VLProcessor(
        Qwen2VLImageProcessor.from_pretrained(str(directory)), module.tokenizer, Qwen2VLVideoProcessor()
    )
    content = ["before ", {"type": "image"}, " between ", {"type": "image"}, " after"]
    parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
    text = module.tokenizer.apply_chat_template(
        [{"role": "user", "content": parts}], tokenize=False, add_generation_prompt=True
    )
    official = processor(text=[text], images=[Image.fromarray(small), Image.fromarray(large)])
    store = ImageStore()
    ids, _ = prompt_of(module, f"before {FIRST} between {SECOND} after", [store.add(small), store.add(large)])
    assert ids.tolist() == list(official["input_ids"][0])


def test_a_text_only_model_refuses_images(tmp_path: Path) -> None:
    module = causal_lm_spec(str(save_tiny_model(tmp_path))).build()
    image = ImageStore().add(random_image())
    with pytest.raises(ValueError, match="reads text alone, but its prompt has 1 images"):
        module.with_image_tokens(np.array([1, 2]), [image])
    row = TokenRows.from_lists([np.array([1])], [np.array([2])], [np.zeros(1)], images=[(image,)])
    with pytest.raises(ValueError, match="a Qwen2ForCausalLM, reads text alone"):
        log_probs(module, row)
    with pytest.raises(ValueError, match="freeze_vision_tower=True does nothing"):
        causal_lm_spec(str(tmp_path), freeze_vision_tower=True).build()


def test_a_saved_model_has_its_image_processor_and_restores(directory: Path, tmp_path: Path) -> None:
    trained: Any = causal_lm_spec(str(save_tiny_vlm(tmp_path / "other", seed=1))).build()
    trained.save_to_path(tmp_path / "checkpoint")
    exported = tmp_path / "checkpoint" / "huggingface"
    assert (exported / "preprocessor_config.json").read_text() == (directory / "preprocessor_config.json").read_text()
    restored = causal_lm_spec(str(directory)).build()
    restored.restore_from_path(tmp_path / "checkpoint")
    rows = image_rows(trained)
    with torch.no_grad():
        expected = log_probs(trained, rows)
        assert torch.equal(log_probs(restored, rows), expected)
        assert torch.equal(log_probs(causal_lm_spec(str(exported)).build(), rows), expected)
