package neuroscript

// Funcs returns the number of functions.
func (l *Library) Funcs() int { return len(l.funcs) }
