package channel

// Rules maps the names of channels to the rules of the configuration. A value of Rules is
// immutable, so that a retried handler does the same: a change of the configuration makes
// new Rules. Every command on a channel calls Match, which should be fast.
type Rules interface {
	// Match returns the rule of a channel in a database. It keeps no reference to the name.
	Match(db int, name []byte) Rule
}

// Rule is what the configuration says of one channel.
type Rule struct {
	// Expire is the lifetime of messages and subscribers, in milliseconds, unless the
	// channel has a setting of its own; 0 stands for DefaultExpire.
	Expire int64
	// Hooks are the names of subscribers that the channel must have. A publish creates
	// missing ones before its message, and extends their lives to that of the message at
	// least, so that they miss none.
	Hooks []string
}

// DefaultExpire is the lifetime of messages and subscribers without a setting or a rule:
// half an hour, in milliseconds.
const DefaultExpire = 30 * 60 * 1000

// MaxExpire is the longest lifetime that can be set: ten years, in milliseconds.
const MaxExpire = 10 * 366 * 24 * 60 * 60 * 1000
