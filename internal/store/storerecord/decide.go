package storerecord

import (
	"errors"
	"fmt"
	"strings"
)

// Seen is the state that a start finds.
type Seen struct {
	// Record is the record of the store, nil if there is none.
	Record *Record
	// Objects reports whether the store has any.
	Objects bool
	// Keys are the keys of the folder pki.
	Keys Keys
	// Insist means that the operator wants the store to belong to these keys, and to new
	// ones where keys are missing.
	Insist bool
}

// Decide returns nil if a server may start. Its error explains how to proceed; it is or
// wraps a *MismatchError if the keys do not fit.
func Decide(seen Seen) error {
	switch record := seen.Record; {
	case record != nil && record.Format > Format:
		return fmt.Errorf("the store is in format %d, written by certplane %s, and this program supports formats up to %d: use that version or a newer one, or restore a backup from before",
			record.Format, record.WrittenBy, Format)
	case seen.Insist:
		return nil
	case record != nil:
		return advise(record.Keys.Check(seen.Keys))
	case !seen.Objects:
		return nil // a first start
	}
	// The store of a server that wrote no record.
	missing := seen.Keys.Missing()
	if len(missing) == 0 {
		return nil
	}
	return advise(&MismatchError{Problems: missing})
}

func advise(err error) error {
	var mismatch *MismatchError
	if !errors.As(err, &mismatch) {
		return err
	}
	return fmt.Errorf("the folder pki does not belong to this store: %w. %s", mismatch, strings.Join([]string{
		"Restore the whole folder from a backup ('certplane backup restore' restores both)",
		"or, if servers share an etcd, bring the keys from the first one: 'certplane pki export' there, 'certplane pki import' here.",
		"With --new-pki the server starts with the keys that are there, and new ones for those that are missing:",
		"certificates and tokens of the former keys are then refused, and Secrets that cannot be read are set aside",
	}, " "))
}
