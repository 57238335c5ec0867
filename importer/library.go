package importer

import (
	"errors"
	"fmt"
	"strings"

	"redoubt/rdb"
	"redoubt/script"
)

// Libraries of functions are kept in memory until Finish: they belong to no keyspace.

// library notes a library.
func (i *Import) library(source string, replace bool) error {
	name, err := script.LibraryName(source)
	if err != nil {
		return fmt.Errorf("a library of functions: %w", err)
	}
	if i.libraries[name] != "" && !replace {
		return fmt.Errorf("the library of functions %s comes twice", name)
	}
	i.libraries[name] = source
	return nil
}

// function executes FUNCTION.
func (i *Import) function(args [][]byte) error {
	sub, last := "", len(args)-1
	if len(args) > 1 {
		sub = strings.ToLower(string(args[1]))
	}
	switch {
	case sub == "load" && len(args) > 2:
		return i.library(string(args[last]), len(args) > 3 && strings.EqualFold(string(args[2]), "replace"))
	case sub == "delete" && len(args) == 3:
		if i.libraries[string(args[2])] == "" {
			return fmt.Errorf("there is no library %.64q", args[2])
		}
		delete(i.libraries, string(args[2]))
		return nil
	case sub == "flush":
		clear(i.libraries)
		return nil
	case sub == "restore" && len(args) > 2:
		sources, err := rdb.Libraries(args[2])
		if err != nil {
			return err
		}
		policy := ""
		if len(args) > 3 {
			policy = strings.ToLower(string(args[3]))
		}
		if policy == "flush" {
			clear(i.libraries)
		}
		for _, s := range sources {
			if err := i.library(s, policy == "replace"); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("it has wrong arguments")
}
