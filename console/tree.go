package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// treeRequest asks for a part of the keys below a prefix. Keys are read with SCAN, in pages,
// until some time has passed; the next request goes on at the cursor of the last answer.
type treeRequest struct {
	DB        int    `json:"db"`
	Prefix    binary `json:"prefix"`
	Separator string `json:"separator"`
	Match     string `json:"match"` // a pattern; instead of the prefix
	Type      string `json:"type"`
	Cursor    string `json:"cursor"`
	// Keys with at least MinSize bytes (MEMORY USAGE), with an expiry if TTL is "expires",
	// without if it is "lasts"; at most TTLBelow milliseconds left, if that is not 0.
	MinSize  int64  `json:"minSize"`
	TTL      string `json:"ttl"`
	TTLBelow int64  `json:"ttlBelow"`
	// Keys is how many keys at most are answered; others are only counted.
	Keys int `json:"keys"`
}

// treeResult groups keys by what stands between the prefix and the next separator.
type treeResult struct {
	Cursor  string  `json:"cursor"` // "0" at the end
	Scanned int     `json:"scanned"`
	Found   int     `json:"found"`
	Groups  []group `json:"groups"`
	Keys    []Value `json:"keys"` // directly below the prefix
	Leaves  int     `json:"leaves"`
	Others  int     `json:"others"` // keys in groups for which there was no room
}

// group are keys with a common prefix.
type group struct {
	Name  Value `json:"name"`
	Count int   `json:"count"`
}

const (
	treeTime   = 150 * time.Millisecond // after which no further page is read
	treePage   = 1000
	maxGroups  = 2000
	maxTreeKey = 2000
)

func (c *Console) tree(w http.ResponseWriter, r *http.Request, l *login) error {
	var q treeRequest
	if err := decode(r, &q); err != nil {
		return err
	}
	if q.Cursor == "" {
		q.Cursor = "0"
	}
	if _, err := strconv.ParseUint(q.Cursor, 10, 64); err != nil {
		return badRequest{errors.New("the cursor is not a number")}
	}
	q.Keys = max(0, min(q.Keys, maxTreeKey))
	leave, err := c.enter(w, runTime)
	if err != nil {
		return err
	}
	defer leave()
	conn, err := c.o.Host.Dial(r.RemoteAddr, l.user)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := l.within(r.Context(), runTime)
	defer cancel()
	result, err := newTalk(conn).tree(ctx, &q)
	if err != nil {
		return err
	}
	answer(w, result)
	return nil
}

// tree reads pages of SCAN.
func (t *talk) tree(ctx context.Context, q *treeRequest) (*treeResult, error) {
	if q.DB != 0 {
		if _, err := t.must(ctx, selectDB(q.DB)); err != nil {
			return nil, err
		}
	}
	pattern := q.Match
	if pattern == "" {
		pattern = escape(string(q.Prefix)) + "*"
	}
	result := &treeResult{Cursor: q.Cursor}
	groups := make(map[string]int)
	for begin := time.Now(); ; {
		scan := Args{[]byte("SCAN"), []byte(result.Cursor), []byte("MATCH"), []byte(pattern), []byte("COUNT"), []byte(strconv.Itoa(treePage))}
		if q.Type != "" {
			scan = append(scan, []byte("TYPE"), []byte(q.Type))
		}
		page, err := t.must(ctx, scan)
		if err != nil {
			return nil, err
		}
		if len(page.List) != 2 {
			return nil, errForm
		}
		keys, err := t.filter(ctx, q, page.List[1].List)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			result.add(q, key, groups)
		}
		result.Scanned += treePage
		result.Cursor = string(page.List[0].Text)
		if result.Cursor == "0" || time.Since(begin) > treeTime {
			break
		}
	}
	for name, n := range groups {
		result.Groups = append(result.Groups, group{Value{Kind: '$', Text: []byte(name)}, n})
	}
	return result, nil
}

func (r *treeResult) add(q *treeRequest, key Value, groups map[string]int) {
	r.Found++
	rest, below := bytes.CutPrefix(key.Text, q.Prefix)
	if below && q.Separator != "" {
		if i := bytes.Index(rest, []byte(q.Separator)); i >= 0 {
			name := rest[:i+len(q.Separator)]
			if _, known := groups[string(name)]; known || len(groups) < maxGroups {
				groups[string(name)]++
			} else {
				r.Others++
			}
			return
		}
	}
	if r.Leaves++; len(r.Keys) < q.Keys {
		r.Keys = append(r.Keys, key)
	}
}

// filter returns the keys that have the wanted size and expiry.
func (t *talk) filter(ctx context.Context, q *treeRequest, keys []Value) ([]Value, error) {
	if len(keys) == 0 || q.MinSize <= 0 && q.TTL == "" && q.TTLBelow <= 0 {
		return keys, nil
	}
	var ask []Args
	for _, key := range keys {
		ask = append(ask, Args{[]byte("PTTL"), key.Text})
		if q.MinSize > 0 {
			ask = append(ask, Args{[]byte("MEMORY"), []byte("USAGE"), key.Text})
		}
	}
	replies, err := t.ask(ctx, ask)
	if err != nil {
		return nil, err
	}
	each := len(ask) / len(keys)
	var kept []Value
	for i, key := range keys {
		own := replies[i*each : (i+1)*each]
		for _, v := range own {
			if v.Kind == '-' {
				return nil, errors.New(string(v.Text))
			}
		}
		ttl, err := strconv.ParseInt(string(own[0].Text), 10, 64)
		if err != nil {
			return nil, errForm
		}
		ok := ttl != -2 && (q.TTL != "expires" || ttl >= 0) && (q.TTL != "lasts" || ttl == -1) && (q.TTLBelow <= 0 || ttl >= 0 && ttl <= q.TTLBelow)
		if ok && q.MinSize > 0 {
			size, err := strconv.ParseInt(string(own[1].Text), 10, 64)
			ok = err == nil && size >= q.MinSize // a null: the key has died
		}
		if ok {
			kept = append(kept, key)
		}
	}
	return kept, nil
}

// must runs a command whose error reply is an error.
func (t *talk) must(ctx context.Context, args Args) (Value, error) {
	replies, err := t.ask(ctx, []Args{args})
	if err != nil {
		return Value{}, err
	}
	if replies[0].Kind == '-' {
		return Value{}, fmt.Errorf("%s", replies[0].Text)
	}
	return replies[0], nil
}

// escape makes a pattern that matches a text and nothing else.
func escape(text string) string {
	var b []byte
	for i := range len(text) {
		if bytes.IndexByte([]byte(`*?[]^\`), text[i]) >= 0 {
			b = append(b, '\\')
		}
		b = append(b, text[i])
	}
	return string(b)
}
