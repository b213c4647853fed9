"""Names of what an episode carries per step, shared by env runners, connectors and algorithms."""

# SingleAgentEpisode.extra_model_outputs, one value per step.
PROMPT_IDS = "prompt_ids"  # int32[P]: the whole prompt, as given to the engine; one id per token of an image
PROMPT_IMAGES = "prompt_images"  # tuple[StoredImage, ...]: the prompt's images, in their order
RESPONSE_IDS = "response_ids"  # int32[R]: the tokens that were sampled, end-of-sequence token included
ROLLOUT_LOGP = "rollout_logp"  # float32[R]: log-probability of each sampled token under the sampling distribution
WEIGHTS_VERSION = "weights_version"  # int: version of the weights that sampled the response
FINISH_REASON = "finish_reason"  # "stop" | "length"

# SingleAgentEpisode.infos. `infos[0]` is the info of `reset`, `infos[t + 1]` that of step t.
GROUP_ID = "group_id"  # int, infos[0]
MEMBER = "member"  # int, infos[0]: index of the trajectory in its rollout group
TASK = "task"  # infos[0]: what `reset(options={"task": ...})` received
TASK_ID = "task_id"  # infos[0]: the environment's own name for the task, where it has one
WON = "won"  # bool, every info
SCORE = "score"  # float from 0 to 1, last info: how well it was done, where an environment knows more than `won`
IS_ACTION_VALID = "is_action_valid"  # bool, infos[t + 1]
INVALID_REASON = "invalid_reason"  # str, infos[t + 1], present where the action is invalid
ANCHOR_STATE = "anchor_state"  # str | ndarray, any info: a better state key than the observation
SERVICE_FAILURE = "service_failure"  # str, last info: why a service that the environment needs has failed it
SERVICE_FAILURE_DETAILS = "service_failure_details"  # str, beside that: the whole story
ADMISSIBLE_ACTIONS = "admissible_actions"  # list[str], any info
ENDING = "ending"  # str, last info: see rllib_gigpo.env_runners.endings

# The same, in the episodes of a multi-agent environment's agents only.
ENTERED_AT = "entered_at"  # int, infos[0]: step of the environment, 0 for `reset`, that first showed the agent anything
ENV_STEPS = "env_steps"  # int, last info: steps of the environment until the trajectory's end

# MultiAgentEpisode.custom_data, for a policy_mapping_fn, beside GROUP_ID, MEMBER and TASK.
IN_EVALUATION = "in_evaluation"  # bool
