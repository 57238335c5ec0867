package commandtest

// differences are the points in which our table differs from what Redis says,
// as "command field", with the reason. The field is one of those of Recorded,
// or "new" for a command that is not recorded, "missing" for one that we do not
// have, "script" for one that has no script of its own.
var differences = map[string]string{
	"client|kill arguments": "MAXAGE is of Redis 7.4",
	"set arguments":         "IFEQ and IFNE are newer than the recorded versions",
	"hscan arguments":       "NOVALUES is of Redis 7.4",
	"redoubt new":           "Redoubt's own",
	"redoubt|recount new":   "Redoubt's own",
	"redoubt|help new":      "Redoubt's own",
	"chpublish new":         "Redoubt's own: channels",
	"chsubscribe new":       "Redoubt's own: channels",
	"chunsubscribe new":     "Redoubt's own: channels",
	"chfetch new":           "Redoubt's own: channels",
	"chread new":            "Redoubt's own: channels",
	"chack new":             "Redoubt's own: channels",
	"chinfo new":            "Redoubt's own: channels",
	"chlist new":            "Redoubt's own: channels",
	"chconfig new":          "Redoubt's own: channels",
	"xdelex new":            "of Redis 8.2, newer than the recorded versions",
	"xackdel new":           "of Redis 8.2, newer than the recorded versions",
	"bitop arguments":       "DIFF, DIFF1, ANDOR and ONE are newer than the recorded versions",
}

// unfinished are the groups that have commands to be written still, and where
// they stand. A command that will not come is in differences, as "missing".
var unfinished = map[string]string{
	"server": "being written",
}
