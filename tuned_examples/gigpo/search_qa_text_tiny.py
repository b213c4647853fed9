"""GiGPO on questions about a made-up world with a tiny language model of another game: how it is set up, on a CPU.

    pip install "rllib-gigpo[search]"
    rllib train file tuned_examples/gigpo/search_qa_text_tiny.py

The model is Household's, which does not know SearchQA's prompt nor its tags: it answers nothing, and from questions of
which none is answered nothing is learned. Name the directory of a larger model as `model_path`, with longer responses
and a learning rate of about 1e-6. The tests run three small iterations of it; more was not tried.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path

config = (
    GiGPOConfig()
    .environment("SearchQA", env_config={"topk": 1, "hops": 2})
    .language_model(model_path=str(embedded_model_path("Household")))
    .generation(max_prompt_tokens=896, max_response_tokens=32)
    .training(
        group_size=8,
        groups_per_iteration=8,
        num_minibatches=4,
        # Far above what suits a model of billions of parameters: this one has 0.4 million.
        lr=5e-4,
        adam_betas=(0.9, 0.95),
        weight_decay=0.0,
        # A win is worth 1, and as in the paper an invalid action costs a hundredth of that.
        invalid_action_penalty=0.01,
        advantage_std_floor=0.1,
    )
    .evaluation(evaluation_duration=64)
    # All in one process: with a model this small, actors cost more than they bring.
    .env_runners(num_env_runners=0)
    .learners(num_learners=0)
    .debugging(seed=0)
)

stop = {"training_iteration": 30}
