package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"redoubt/gateway/store"
)

// The endpoints of operators, and the probes.

// revokedPrefix is the prefix of the keys of revoked tokens. Such a key lives as long as
// its token would be accepted.
const revokedPrefix = "redoubt:jwt:revoked:"

// maxExp is the last second of the year 9999.
const maxExp = 253402300799

func revokedKey(id string) string {
	sum := sha256.Sum256([]byte(id))
	return revokedPrefix + hex.EncodeToString(sum[:])
}

// revoked reports whether a token was revoked.
func (g *Gateway) revoked(ctx context.Context, id string) (bool, error) {
	reply, err := g.o.Store.Run(ctx, store.Args("EXISTS", revokedKey(id))...)
	n, ok := reply.(int64)
	if err == nil && !ok {
		err = store.ErrReply
	}
	return n > 0, err
}

// administrator returns the refusal of a request without the administrator's token, else nil.
func (g *Gateway) administrator(r *http.Request) *response {
	want := g.settings.Load().AdminToken
	got, wanted := sha256.Sum256([]byte(bearer(r))), sha256.Sum256([]byte(want))
	if want == "" || subtle.ConstantTimeCompare(got[:], wanted[:]) != 1 {
		g.Figures.Rejected.Add(1)
		return fail(http.StatusForbidden, "Unauthorized", codeRejected)
	}
	return nil
}

func (g *Gateway) revoke(_ http.ResponseWriter, r *http.Request, q *request) *response {
	if res := g.administrator(r); res != nil {
		return res
	}
	id := r.URL.Query().Get("jti")
	if id == "" {
		return fail(http.StatusBadRequest, `Missing "jti" parameter`, "")
	}
	exp, err := strconv.ParseInt(r.URL.Query().Get("exp"), 10, 64)
	if err != nil || exp < 0 || exp > maxExp {
		return invalid("exp")
	}
	// The leeway of the rules lets a token live longer than its exp claim.
	until := exp + int64((g.rules.Load().Leeway()+time.Second-1)/time.Second)
	if until > time.Now().Unix() {
		// Revoking again, perhaps with an earlier time, must not shorten it.
		key, at := revokedKey(id), strconv.FormatInt(until, 10)
		for _, args := range [][][]byte{store.Args("SET", key, "1", "NX", "EXAT", at), store.Args("EXPIREAT", key, at, "GT")} {
			if _, err := g.o.Store.Run(r.Context(), args...); err != nil {
				return g.failed(err)
			}
		}
	}
	g.o.Log.Info("a token was revoked", "addr", q.addr, "jti", id, "until", until)
	return asJSON(http.StatusOK, struct {
		Exp int64  `json:"exp"`
		Jti string `json:"jti"`
	}{exp, id})
}

// logLevels maps the levels that a client may set to the names of the directive loglevel.
var logLevels = map[string]string{"DEBUG": "debug", "INFO": "notice", "WARN": "warning", "ERROR": "warning"}

func (g *Gateway) logLevel(_ http.ResponseWriter, r *http.Request, q *request) *response {
	if res := g.administrator(r); res != nil {
		return res
	}
	category := r.URL.Query().Get("category")
	level := logLevels[strings.ToUpper(r.URL.Query().Get("level"))]
	switch {
	case category == "":
		return fail(http.StatusBadRequest, `Missing "category" parameter`, "")
	case level == "":
		return invalid("level")
	case category != "*":
		return fail(http.StatusBadRequest, `Invalid "category" parameter: the log has one level, that of *`, "")
	}
	if err := g.o.SetLogLevel(level); err != nil {
		return g.failed(err)
	}
	return &response{status: http.StatusNoContent}
}

// liveness answers as long as the process can answer at all.
func (g *Gateway) liveness(http.ResponseWriter, *http.Request, *request) *response {
	return asJSON(http.StatusOK, map[string]string{"storage": "alive"})
}

// readiness reports whether the database can serve.
func (g *Gateway) readiness(http.ResponseWriter, *http.Request, *request) *response {
	err := error(nil)
	if g.o.Ready != nil {
		err = g.o.Ready()
	}
	switch {
	case g.closing.Load():
		return asJSON(http.StatusInternalServerError, map[string]string{"storage": "the server is shutting down"})
	case err != nil:
		return asJSON(http.StatusInternalServerError, map[string]string{"storage": err.Error()})
	}
	return asJSON(http.StatusOK, map[string]string{"storage": "ready"})
}
