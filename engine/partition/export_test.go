package partition

// Waiting returns how many commits wait for their turn at a partition.
func Waiting(e *Engine, part int) int {
	g := e.gateOf(part)
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.queue)
}
