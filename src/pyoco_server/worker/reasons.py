"""Why a run failed, in the words of the dead letters."""

EXECUTION_ERROR = "execution_error"
FLOW_NOT_FOUND = "flow_not_found"
