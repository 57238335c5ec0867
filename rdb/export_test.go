package rdb

// What the tests against a real Redis need: they start servers, and those import
// this package.

// Sample is a value with what describe must say of it.
type Sample struct {
	Name, Encoding, Since, Want string
	Packed                      bool // it is not a string
	Calls                       [][]string
	Payload                     []byte // of an old one
}

func exported(s sample) Sample {
	return Sample{Name: s.name, Encoding: s.encoding, Since: s.since, Want: s.wanted(), Packed: s.kind != String, Calls: s.calls()}
}

// Samples are the values that are recorded, and Old those made by hand.
func Samples() (list []Sample) {
	for _, s := range samples() {
		list = append(list, exported(s))
	}
	return list
}

func Old() (list []Sample) {
	for _, o := range append(oldValues(), timedValues()...) {
		s := exported(o.sample)
		s.Payload = o.payload
		list = append(list, s)
	}
	return list
}

var (
	Describe      = describe
	Encode        = encode
	Seal          = payload
	Recorded      = recorded
	RecordedFiles = recordedFiles
	VersionOf     = versionOf
)

// Exactly is Describe with the times of consumers.
func Exactly(payload []byte) (string, error) {
	v, err := Open(payload, Options{})
	if err != nil {
		return "", err
	}
	d := describer{times: true}
	err = d.visit(v)
	return d.text(v.Kind), err
}

// Plain is the value of a payload without its end; if it is one packed part, that is
// not compressed.
func Plain(p []byte) ([]byte, error) {
	value := p[:len(p)-footer]
	switch value[0] {
	case typeHashListpack, typeZSetListpack, typeSetListpack, typeSetIntset:
		r := reader{b: value, at: 1, most: 1 << 20}
		var scratch []byte
		s, err := r.str(&scratch)
		return append(value[:1:1], rdbString(string(s))...), err
	}
	return append([]byte(nil), value...), nil
}

// FileLibrary is the library of functions in a recorded file.
const FileLibrary = "#!lua name=recorded\nredis.register_function('answer', function() return 42 end)\n"
