// Package acl is access control: users with passwords, and the commands, keys and
// channels that each user may use, with the rules and texts of Redis.
//
// A User is immutable. A change of rules makes a new User, which is stored in the
// user's Handle; a connection holds the Handle, so the new rules apply from its next
// command on. A check takes no lock: one load of the Handle, and for a user who may
// do everything, as the default user may, one more of a bool.
//
// Rules are kept in two forms. The bitmap of commands is what is asked; the list
// of command rules is what is printed, so that a user is shown as it was made, and
// means the same when a later version has more commands. Both are made by the
// same steps, see rule.go.
package acl

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"redoubt/command"
)

// DefaultName is the user that connections begin as.
const DefaultName = "default"

// User is a user at one moment.
type User struct {
	name         string
	enabled      bool
	nopass       bool
	skipSanitize bool
	passwords    []string    // SHA-256, in lower case hex
	selectors    []*selector // the first one is the user's own, the root
	// Of the above, made by seal.
	all  bool // one selector allows everything
	text string
}

// Name is the user's name.
func (u *User) Name() string { return u.name }

// Enabled reports whether clients may authenticate as the user; Open whether a new
// connection needs no password to be the user.
func (u *User) Enabled() bool { return u.enabled }
func (u *User) Open() bool    { return u.enabled && u.nopass }

// NoPass reports whether any password is accepted.
func (u *User) NoPass() bool { return u.nopass }

// Passwords are the hashes of the passwords.
func (u *User) Passwords() []string { return u.passwords }

// selector is a set of permissions: commands, and the keys and channels that
// these commands may use.
type selector struct {
	allCommands bool // no command was taken since +@all
	future      bool // begun by +@all: it has commands that do not exist yet
	commands    []uint64
	firstArgs   map[int][]string // by command: it is allowed with these as first argument
	rules       []commandRule
	allKeys     bool
	keys        []keyPattern
	allChannels bool
	channels    []string
}

type commandRule struct {
	allow bool
	name  string // of a command, "@" and that of a category, or a command, "|" and an argument
}

// Access is what is done with a key.
type Access uint8

// What may be done with a key.
const (
	Read Access = 1 << iota
	Write
)

type keyPattern struct {
	pattern string
	bytes   []byte // the same
	access  Access
}

func (s *selector) clone() *selector {
	c := *s
	c.commands, c.rules = slices.Clone(s.commands), slices.Clone(s.rules)
	c.keys, c.channels = slices.Clone(s.keys), slices.Clone(s.channels)
	if s.firstArgs != nil {
		c.firstArgs = make(map[int][]string, len(s.firstArgs))
		for id, args := range s.firstArgs {
			c.firstArgs[id] = slices.Clone(args)
		}
	}
	return &c
}

func (u *User) clone() *User {
	c := *u
	c.passwords = slices.Clone(u.passwords)
	c.selectors = make([]*selector, len(u.selectors))
	for i, s := range u.selectors {
		c.selectors[i] = s.clone()
	}
	return &c
}

// seal completes a user, which must not be changed afterwards.
func (u *User) seal() *User {
	u.all = false
	for _, s := range u.selectors {
		u.all = u.all || s.allCommands && s.allKeys && s.allChannels
	}
	u.text = u.describe()
	return u
}

// Handle is a user's identity, which outlives changes of its rules. When the user
// is deleted, the handle stays without any permission; a new user of that name has
// another one.
type Handle struct {
	user atomic.Pointer[User]
	gone atomic.Bool
}

// Load returns the user as it is now.
func (h *Handle) Load() *User { return h.user.Load() }

// Gone reports whether the user was deleted.
func (h *Handle) Gone() bool { return h.gone.Load() }

func (h *Handle) end() {
	h.gone.Store(true)
	h.user.Store((&User{name: h.Load().name}).seal())
}

// Registry is all users of a server.
type Registry struct {
	commands map[string]*command.Command // by full name
	list     []*command.Command
	words    int // of a bitmap of commands

	allChannels atomic.Bool
	mu          sync.RWMutex // held while users come, go and change
	users       map[string]*Handle
	deflt       *Handle
}

// New returns a registry with the default user, who may do everything without a
// password. The bitmaps are by the numbers that the table gave its commands.
func New(t *command.Table) *Registry {
	r := &Registry{commands: make(map[string]*command.Command), list: t.All(), words: (len(t.All()) + 63) / 64}
	for _, c := range r.list {
		r.commands[c.FullName] = c
	}
	r.deflt = r.handle(r.defaultUser())
	r.users = map[string]*Handle{DefaultName: r.deflt}
	return r
}

func (r *Registry) handle(u *User) *Handle {
	h := &Handle{}
	h.user.Store(u)
	return h
}

// newUser is a user as it is when it is made: disabled, without any permission.
func (r *Registry) newUser(name string) *User {
	return &User{name: name, selectors: []*selector{r.newSelector()}}
}

func (r *Registry) newSelector() *selector {
	return &selector{commands: make([]uint64, r.words), allChannels: r.allChannels.Load()}
}

func (r *Registry) defaultUser() *User {
	u := r.newUser(DefaultName)
	u.enabled, u.nopass = true, true
	s := u.selectors[0]
	s.allowAll()
	s.allKeys, s.allChannels = true, true
	return u.seal()
}

// SetAllChannels is the directive acl-pubsub-default: whether new users and
// selectors may use all channels. Existing ones are not changed.
func (r *Registry) SetAllChannels(all bool) { r.allChannels.Store(all) }

// Default is the default user, who is always there.
func (r *Registry) Default() *Handle { return r.deflt }

// Find returns the user of a name, or nil.
func (r *Registry) Find(name []byte) *Handle {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.users[string(name)]
}

// Users returns all users, sorted by name.
func (r *Registry) Users() []*User {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]*User, 0, len(r.users))
	for _, h := range r.users {
		all = append(all, h.Load())
	}
	sort.Slice(all, func(i, j int) bool { return all[i].name < all[j].name })
	return all
}

// Change is a change of a user's rules. Before is nil when the user is new.
type Change struct {
	Handle        *Handle
	Before, After *User
}

// Set changes a user, or makes it, by rules that are applied in order: all of
// them or, when there is an error, none.
func (r *Registry) Set(name string, rules []string) (Change, error) {
	merged, err := mergeSelectors(rules)
	if err != nil {
		return Change{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.users[name]
	c := Change{Handle: h}
	u := r.newUser(name)
	if h != nil {
		c.Before = h.Load()
		u = c.Before.clone()
	}
	for _, op := range merged {
		if err := r.apply(u, op); err != nil {
			return Change{}, &RuleError{Rule: op, Err: err}
		}
	}
	c.After = u.seal()
	if h == nil {
		c.Handle = r.handle(u)
		r.users[name] = c.Handle
	} else {
		h.user.Store(u)
	}
	return c, nil
}

// SetPassword gives the default user one password, as the directive requirepass
// does; without one, anybody may be the default user.
func (r *Registry) SetPassword(password string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.deflt.Load().clone()
	u.passwords, u.nopass = nil, password == ""
	if password != "" {
		u.passwords = []string{hashPassword(password)}
	}
	r.deflt.user.Store(u.seal())
}

// Delete removes users, and returns the handles of those that were there. From
// then on these have no permissions.
func (r *Registry) Delete(names ...string) (gone []*Handle) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		if h := r.users[name]; h != nil && h != r.deflt {
			delete(r.users, name)
			h.end()
			gone = append(gone, h)
		}
	}
	return gone
}

// Authenticate returns the user of a name and password; nil when they do not fit or
// the user is disabled.
func (r *Registry) Authenticate(name, password []byte) *Handle {
	h := r.Find(name)
	if h == nil {
		return nil
	}
	u := h.Load()
	switch {
	case !u.enabled:
		return nil
	case u.nopass:
		return h
	}
	hash, fits := hashPassword(string(password)), 0
	for _, p := range u.passwords { // all of them: the time tells nothing
		fits |= subtle.ConstantTimeCompare([]byte(hash), []byte(p))
	}
	if fits == 0 {
		return nil
	}
	return h
}

func hashPassword(password string) string {
	sum := sha256.Sum256([]byte(password))
	return hex.EncodeToString(sum[:])
}
