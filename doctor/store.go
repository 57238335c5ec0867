package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// store looks at the directory of the store.
func (e *examination) store() {
	const area = "store"
	if e.cfg.Enum("engine") == "memory" {
		return
	}
	dir := e.cfg.Str("dir")
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.ok(area, "%s does not exist yet: the first start makes it", dir)
		return
	case err != nil:
		e.add(area, Fault, "dir: "+err.Error(), "the server does not start", "see to the owner and the mode of the directories above, or correct dir")
		return
	case !info.IsDir():
		e.add(area, Fault, dir+" is no directory", "the server does not start", "correct dir")
		return
	}
	if info.Mode().Perm()&0o077 != 0 {
		e.add(area, Warning, fmt.Sprintf("%s can be used by others (%s)", dir, info.Mode().Perm()), "they can read the data, passwords of ACL users aside, or do worse", "chmod -R go= "+dir)
	}
	if owner, ok := e.Owner(info); ok && owner != e.User && e.User != 0 {
		e.add(area, Warning, fmt.Sprintf("%s belongs to user %d, and this is user %d", dir, owner, e.User), "the server has to be able to write there", "run this, and the server, as the owner; or chown -R the directory")
	}
	if _, err := os.Stat(dir + "/local"); errors.Is(err, fs.ErrNotExist) {
		e.ok(area, "there is no store in %s yet: the first start makes it", dir)
		return
	}
	about, locked, err := e.Store(dir)
	switch {
	case locked && e.answer != nil && e.answer.err == nil:
		e.ok(area, "the server has the store open; `redoubt check` looks at one at rest")
	case locked:
		e.add(area, Warning, "a process has the store open, and no server answers", "a server that is told to start would refuse to", "see which: fuser "+dir+"/local/LOCK; a process that has ended leaves no lock")
	case err != nil:
		e.add(area, Fault, "the store: "+err.Error(), "the server does not start", "docs/operations.md goes through it: copy the directory away, then redoubt check")
	default:
		e.ok(area, "%s", about)
	}
}
