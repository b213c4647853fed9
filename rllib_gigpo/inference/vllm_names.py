"""Names by which the processes of a vLLM engine know what is ours."""

# Of our engine among vLLM's backends of weight transfer.
WEIGHT_TRANSFER_BACKEND = "rllib_gigpo_file"
