"""What a check finds: plain values that rules make and reports print."""
