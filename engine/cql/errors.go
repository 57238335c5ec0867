package cql

import (
	"context"
	"errors"
	"fmt"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"redoubt/engine"
)

// readError maps an error of a read.
func readError(ctx context.Context, err error) error {
	var busy *gocql.RequestErrOverloaded
	switch {
	case errors.Is(err, gocql.ErrSessionClosed):
		return engine.ErrClosed
	case errors.As(err, &busy):
		return fmt.Errorf("CQL: %w (%s)", engine.ErrOverloaded, brief(err))
	case missing(err):
		return fmt.Errorf("CQL: %w: the table is gone or has changed: %s", engine.ErrUnavailable, brief(err))
	case ctx.Err() != nil:
		return fmt.Errorf("CQL: no answer in time: %w (%s)", engine.ErrUnavailable, brief(err))
	}
	return fmt.Errorf("CQL: %w (%s)", engine.ErrUnavailable, brief(err))
}

// changeError maps an error of a change. Whatever is not certainly a refusal leaves open
// whether the change was, or will be, made.
func changeError(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, gocql.ErrSessionClosed):
		return engine.ErrClosed
	case refused(err):
		return readError(ctx, err)
	}
	return fmt.Errorf("CQL: %w (%s)", engine.ErrUnknownOutcome, brief(err))
}

// refused reports whether a change was certainly not made: nothing was sent, too few nodes
// are alive, or the statement cannot be executed.
func refused(err error) bool {
	var alive *gocql.RequestErrUnavailable
	return errors.Is(err, gocql.ErrNoConnections) || errors.Is(err, gocql.ErrNoStreams) || errors.As(err, &alive) || missing(err)
}

// missing reports whether the statement cannot be executed on this schema, or by this user.
func missing(err error) bool {
	var request gocql.RequestError
	if !errors.As(err, &request) {
		return false
	}
	switch request.Code() {
	case gocql.ErrCodeSyntax, gocql.ErrCodeInvalid, gocql.ErrCodeUnauthorized, gocql.ErrCodeConfig:
		return true
	}
	return false
}

// brief is the beginning of an error's text, on one line.
func brief(err error) string {
	const most = 240
	s := strings.Join(strings.Fields(err.Error()), " ")
	return s[:min(len(s), most)]
}
