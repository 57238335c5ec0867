package journal

// form is what differs between logs of the two versions. mu is held.
type form interface {
	headerSize() int64
	// putHeader writes the header of a segment that begins now.
	putHeader(b []byte, log uint32, index, first uint64)
	// claims reports whether a mark would claim more than what is synced.
	claims() bool
	// mark writes the payload of a mark and returns the mark's kind and the
	// payload's length. The form counts it as written.
	mark(payload []byte) (kind Kind, length int)
	// keepsOld reports whether segments stay that the owner does not need.
	keepsOld() bool
}

// putHeader writes the header of s, the next segment of the log. mu is held, or nobody else
// has the journal yet.
func (j *Journal) putHeader(s *segment) error {
	b := j.head[:j.form.headerSize()]
	j.form.putHeader(b, j.log, s.index, s.first)
	_, err := s.file.WriteAt(b, 0)
	return err
}

// plain is the form of a log of data, version 1.
type plain struct{}

func (plain) headerSize() int64 { return headerSize }
func (plain) putHeader(b []byte, log uint32, index, first uint64) {
	putSegmentHeader(b, log, index, first)
}
func (plain) claims() bool            { return false }
func (plain) mark([]byte) (Kind, int) { return Mark, 0 }
func (plain) keepsOld() bool          { return false }
