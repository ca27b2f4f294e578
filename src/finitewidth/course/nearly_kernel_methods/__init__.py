"""Nearly-kernel predictions and the algorithms behind them."""
