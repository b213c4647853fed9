"""How a trajectory ends. Each ending has a counter in the results; no trajectory leaves a rollout uncounted.

| ending             | in the group's statistics | trained on  |
|--------------------|---------------------------|-------------|
| won, lost          | yes                       | yes         |
| step_limit         | yes, with its reward      | yes         |
| prompt_overflow    | yes, ended as truncated   | up to there |
| env_failure        | no, the member leaves     | no          |

`prompt_overflow` at the very first prompt leaves no step to train on: that member leaves its group.
"""

WON = "won"
LOST = "lost"
STEP_LIMIT = "step_limit"
PROMPT_OVERFLOW = "prompt_overflow"
ENV_FAILURE = "env_failure"

ENDINGS = (WON, LOST, STEP_LIMIT, PROMPT_OVERFLOW, ENV_FAILURE)
