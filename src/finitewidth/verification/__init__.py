"""Theory beside experiment: a predicted law against networks drawn and trained for the purpose."""
