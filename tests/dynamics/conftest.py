from threads import one_thread_per_process  # noqa: F401
