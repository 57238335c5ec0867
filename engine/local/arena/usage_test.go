package arena

// smallPages is an Option: memory is taken and given back in steps of 64 KiB, without huge
// pages.
func smallPages(a *Arena) { a.small = true }

// Fragmented is the size of the free slots in pages that are in use: what only
// allocations of the same class can take.
func (a *Arena) Fragmented() int64 {
	_, free := a.count()
	return free
}
