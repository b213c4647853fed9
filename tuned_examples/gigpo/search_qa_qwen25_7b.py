"""GiGPO on Search-R1's questions with Qwen2.5-7B, as in the GiGPO paper (Feng et al. 2025).

    pip install "rllib-gigpo[search-dense,vllm]"
    rllib retriever serve wiki-18.jsonl --encoder e5-base-v2 --index e5_Flat.index \
        --query-prefix "query: " --passage-prefix "passage: "
    export SEARCH_QA_DATA=<folder with train.parquet and test.parquet of Search-R1>
    export QWEN2_5_7B=<folder of Qwen2.5-7B-Instruct>
    rllib train file tuned_examples/gigpo/search_qa_qwen25_7b.py

Source: arXiv 2505.10978, search-augmented QA: 256 groups of 5, at most 4 turns, GiGPO w/ std with anchor states of a
similarity above 0.9, an invalid action costs 0.01 of a win, KL coefficient 0.001. It counts mini-batches in rows, 512;
an iteration has about 8 times as many.
Hardware: 3 GPUs of 80 GB: one samples and two learn, an adapter of rank 64 over a bfloat16 model, which the paper does
not use, with the learning rate that goes with it. The retriever wants 65 GB of memory for the published index.
Expected: 47.2 % of the answers right with all weights, as the mean over seven data sets (the paper); of an adapter
nothing is known.
Run here: no, for want of GPUs.
"""

import os

from rllib_gigpo.algorithms.gigpo import GiGPOConfig

data = os.environ.get("SEARCH_QA_DATA", "searchR1")

config = (
    GiGPOConfig()
    .environment(
        "SearchQA",
        env_config={
            "data": f"{data}/train.parquet",
            "evaluation_data": f"{data}/test.parquet",
            "retriever_url": os.environ.get("RETRIEVER_URL", "http://127.0.0.1:8000/retrieve"),
            "topk": 3,
            "max_steps": 4,
        },
    )
    .language_model(
        model_path=os.environ.get("QWEN2_5_7B", "Qwen2.5-7B-Instruct"),
        model_dtype="bfloat16",
        gradient_checkpointing=True,
        lora_rank=64,
        lora_alpha=64,
    )
    .generation(engine="vllm", max_prompt_tokens=4096, max_response_tokens=512, temperature=1.0)
    .training(
        group_size=5,
        groups_per_iteration=256,
        num_minibatches=8,
        # Ten times that of all weights.
        lr=1e-5,
        gamma=0.95,
        step_advantage_weight=1.0,
        advantage_norm="std",
        similarity_threshold=0.9,
        invalid_action_penalty=0.01,
        kl_coeff=0.001,
        micro_batch_tokens=16_384,
    )
    .evaluation(evaluation_interval=10, evaluation_duration=512, evaluation_config={"temperature": 0})
    # A search blocks its worker: many of them keep the retriever busy.
    .env_runners(num_env_runners=1, num_gpus_per_env_runner=1, num_envs_per_env_runner=640, env_workers=32)
    .learners(num_learners=2, num_gpus_per_learner=1)
    .debugging(seed=0)
)

stop = {"training_iteration": 200}
