"""What the browser shows of finite width at initialisation."""
