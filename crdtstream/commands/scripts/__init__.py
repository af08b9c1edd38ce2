"""EVAL and SCRIPT: the few scripts that are known, each as a function of ours."""
