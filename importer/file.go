package importer

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"redoubt/command"
	"redoubt/rdb"
)

// RDB files.

// RDB reads an RDB file, up to its end and no further: rest is the remainder of the stream,
// and end the length of the file.
// With base the file is the beginning of an append-only file, which the file may also say
// itself: keys that expired after it was begun are kept, since commands that follow may use
// them. An error that names a place in the file is an *rdb.FileError.
func (i *Import) RDB(in io.Reader, base bool) (rest io.Reader, end int64, err error) {
	f, err := rdb.NewFile(in, rdb.Options{MaxString: i.limit.MaxBulk})
	if err != nil {
		return nil, 0, err
	}
	i.Base = base
	for {
		item, err := f.Next()
		if err == io.EOF {
			i.Unchecked = i.Unchecked || f.Unchecked
			return f.Rest(), f.Offset(), i.commit()
		}
		if err != nil {
			return nil, 0, err
		}
		switch item.What {
		case rdb.Key:
			now := i.o.Now
			switch {
			case i.o.Live != nil:
				now = 0
			case i.Base:
				now = i.clock
			}
			err = i.key(f, item, now)
		case rdb.Library:
			err = i.library(string(item.Text), false)
		case rdb.Aux:
			i.auxField(string(item.Name), string(item.Text))
		case rdb.ModuleAux:
			err = i.unknown(fmt.Errorf("it has data of the module %q", item.Name), item.Offset)
		}
		if err != nil {
			var at *rdb.FileError
			if !errors.As(err, &at) {
				err = f.Failed(err)
			}
			return nil, 0, err
		}
	}
}

// auxField reads an auxiliary field of a file.
func (i *Import) auxField(name, text string) {
	switch name {
	case "ctime":
		if s, err := strconv.ParseInt(text, 10, 44); err == nil && s > 0 {
			i.clock = s * 1000
		}
	case "repl-stream-db":
		if db, err := strconv.ParseInt(text, 10, 31); err == nil && db >= 0 {
			i.StreamDB = int(db)
		}
	case "aof-base", "aof-preamble":
		i.Base = i.Base || text == "1"
	}
}

// ErrUnknown: the file has a value or a command that only a module knows.
var ErrUnknown = errors.New("unknown to Redoubt")

// unknown counts something that Redoubt does not know and leaves it out, or returns an error
// if Options.SkipUnknown is not set.
func (i *Import) unknown(what error, offset int64) error {
	if !i.o.SkipUnknown {
		return fmt.Errorf("%w, which is %w; --skip-unknown leaves it out", what, ErrUnknown)
	}
	i.Skipped++
	if i.o.Skipped != nil {
		i.o.Skipped(fmt.Sprintf("at byte %d: %v", offset, what))
	}
	return nil
}

// key stores a key, or skips it if it has expired or is a module's.
func (i *Import) key(f *rdb.File, item *rdb.Item, now int64) error {
	v := item.Value
	switch {
	case v.Kind == rdb.Module && !command.IsChannel(v):
		name, version := v.ModuleName()
		if err := v.Skip(); err != nil {
			return err
		}
		return i.unknown(fmt.Errorf("key %.128q of database %d is a value of the module %q, version %d", item.Key, item.DB, name, version), item.Offset)
	case item.Expire != 0 && item.Expire <= now:
		err := v.Skip()
		if errors.Is(err, rdb.ErrEmpty) {
			err = nil
		}
		i.Expired++
		return err
	}
	if err := i.selectDB(item.DB); err != nil {
		return err
	}
	if err := i.begin(); err != nil {
		return err
	}
	tx := &i.tx
	tx.Now, tx.NowMicros = now, i.o.Now*1000
	mark := tx.Start()
	if tx.Find(item.Key).Exists() {
		return fmt.Errorf("%w: the key comes twice", rdb.ErrFormat)
	}
	i.call.Reset()
	err := command.RestoreKey(&i.call, item.Key, v, item.Expire)
	if err == nil {
		err = tx.Err()
	}
	switch {
	case errors.Is(err, rdb.ErrEmpty):
		tx.Rollback(mark)
		i.Empty++
		return nil
	case err != nil:
		tx.Rollback(mark)
		return err
	case !tx.Find(item.Key).Exists(): // all fields of a hash have expired
		i.Expired++
	default:
		i.Keys++
	}
	return i.full()
}
