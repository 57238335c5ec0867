package acl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ACL files: one line a user, as ACL LIST has it.

// Load replaces all users by those of an ACL file, whose name is for errors, or
// changes nothing when anything is wrong with it. It returns the handles of the users
// that were there before, but for the default user, who stays: as in Redis, a user of
// the same name is another one.
//
// The default user is as in the file, or has all permissions and no password when
// it is not there.
func (r *Registry) Load(name string, content []byte) (gone []*Handle, err error) {
	users := make(map[string]*User)
	var wrong strings.Builder
	for i, line := range strings.Split(string(content), "\n") {
		if line = strings.Trim(line, " \t\r\n"); line != "" {
			r.loadLine(users, name, i+1, line, &wrong)
		}
	}
	if wrong.Len() > 0 {
		return nil, errors.New(wrong.String() +
			"WARNING: ACL errors detected, no change to the previously active ACL rules was performed")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, h := range r.users {
		if h != r.deflt {
			delete(r.users, name)
			h.end()
			gone = append(gone, h)
		}
	}
	if users[DefaultName] == nil {
		users[DefaultName] = r.defaultUser()
	}
	for name, u := range users {
		if name == DefaultName {
			r.deflt.user.Store(u.seal())
		} else {
			r.users[name] = r.handle(u.seal())
		}
	}
	return gone, nil
}

// loadLine reads a line and tells what is wrong with it.
func (r *Registry) loadLine(users map[string]*User, file string, line int, text string, wrong *strings.Builder) {
	words := strings.Split(text, " ")
	if words[0] != "user" || len(words) < 2 {
		fmt.Fprintf(wrong, "%s:%d should start with user keyword followed by the username. ", file, line)
		return
	}
	name := words[1]
	if !ValidName(name) {
		fmt.Fprintf(wrong, "'%s:%d: username '%s' contains invalid characters. ", file, line, name)
		return
	}
	if users[name] != nil {
		fmt.Fprintf(wrong, "WARNING: Duplicate user '%s' found on line %d. ", name, line)
		return
	}
	u := r.newUser(name)
	users[name] = u
	rules, err := mergeSelectors(words[2:])
	if err != nil {
		fmt.Fprintf(wrong, "%s:%d: Unmatched parenthesis in selector definition.", file, line)
		return
	}
	told := false
	for _, op := range rules {
		op = strings.Trim(op, "\t\r\n")
		switch err := r.apply(u, op); {
		case errors.Is(err, errUnknown): // all of these: they tell nothing that is secret
			fmt.Fprintf(wrong, "%s:%d: Error in applying operation '%s': %s. ", file, line, op, err)
		case err != nil && !told: // those that follow may come from the first one
			fmt.Fprintf(wrong, "%s:%d: %s. ", file, line, err)
			told = true
		}
	}
}

// Declare makes the users of a configuration file: the words of its user lines,
// without the word user.
func (r *Registry) Declare(lines [][]string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := make(map[string]bool)
	for _, words := range lines {
		name := words[0]
		switch {
		case seen[name]:
			return fmt.Errorf("Error in user declaration '%s': Duplicate user found. A user can only be defined once in config files", name) //nolint:staticcheck // Redis's text
		case !ValidName(name):
			return errors.New("Spaces not allowed in ACL usernames") //nolint:staticcheck // Redis's text
		}
		seen[name] = true
		u := r.newUser(name)
		rules, err := mergeSelectors(words[1:])
		if err != nil {
			return err
		}
		for _, op := range rules {
			if err := r.apply(u, op); err != nil {
				return fmt.Errorf("Error loading ACL rule '%s' for the user named '%s': %w", op, name, err) //nolint:staticcheck // Redis's text
			}
		}
		if name == DefaultName {
			r.deflt.user.Store(u.seal())
		} else {
			r.users[name] = r.handle(u.seal())
		}
	}
	return nil
}

// Save writes all users to an ACL file. The new file is on disk and takes the place
// of the old one at once, or the old one stays.
func (r *Registry) Save(path string) (err error) {
	var b strings.Builder
	for _, u := range r.Users() {
		b.WriteString(u.Line() + "\n")
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // else the link would be replaced, not the file
	}
	mode := os.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp-*")
	if err != nil {
		return fmt.Errorf("write the ACL file: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the ACL file: %w", err)
			_ = f.Close() // a second close does no harm
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.WriteString(b.String()); err != nil {
		return err
	}
	if err = errors.Join(f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
