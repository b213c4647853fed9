"""How a trajectory ends. Each ending has a counter in the results; no trajectory leaves a rollout uncounted.

| ending             | in the group's statistics | trained on  |
|--------------------|---------------------------|-------------|
| won, lost          | yes                       | yes         |
| step_limit         | yes, with its reward      | yes         |
| prompt_overflow    | yes, ended as truncated   | up to there |
| straggler_cut      | yes, ended as truncated   | up to there |
| env_failure        | no, the member leaves     | no          |
| service_failure    | no, the member leaves     | no          |
| rollout_failure    | no, the group is lost     | no          |

`straggler_cut` is what a trajectory has that has spent its budget of steps or tokens.
`prompt_overflow` at the very first prompt leaves no step to train on: that member leaves its group.
`service_failure` is what a trajectory has that its environment truncated because a service that it needs, such as a
search engine, did not answer: neither the environment nor the agent is to blame, and the next rollout may fare better.
`rollout_failure` is what every member of a group has whose runner or engine failed.
"""

WON = "won"
LOST = "lost"
STEP_LIMIT = "step_limit"
PROMPT_OVERFLOW = "prompt_overflow"
STRAGGLER_CUT = "straggler_cut"
ENV_FAILURE = "env_failure"
SERVICE_FAILURE = "service_failure"
ROLLOUT_FAILURE = "rollout_failure"

ENDINGS = (WON, LOST, STEP_LIMIT, PROMPT_OVERFLOW, STRAGGLER_CUT, ENV_FAILURE, SERVICE_FAILURE, ROLLOUT_FAILURE)
LEAVES_ITS_GROUP = (ENV_FAILURE, SERVICE_FAILURE)
