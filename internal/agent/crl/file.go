// Package crl reads the revocation lists that a host needs.
package crl

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/certplane/certplane/internal/revocation"
)

// File is a file with revocation lists.
type File struct {
	Data []byte
	// Lists are the lists, with or without their entries.
	Lists []*x509.RevocationList
}

// Parse reads a file that was written earlier. A file of another program has no lists.
func Parse(data []byte) File {
	lists, _ := revocation.ParseLists(data)
	return File{Data: data, Lists: lists}
}

// Follows returns an error if a list of the file is older than that of the same CA in the
// former file.
func (f File) Follows(former File) error {
	for _, next := range f.Lists {
		for _, last := range former.Lists {
			same := bytes.Equal(next.RawIssuer, last.RawIssuer) && bytes.Equal(next.AuthorityKeyId, last.AuthorityKeyId)
			if same && last.Number != nil && next.Number.Cmp(last.Number) < 0 {
				return fmt.Errorf("the server's list of %s has the number %d, but the file has a later one, %d: if the server was restored, run certplane revocation resume --from with this file",
					next.Issuer, next.Number, last.Number)
			}
		}
	}
	return nil
}

// First returns the list that ends first; nil without lists.
func (f File) First() *x509.RevocationList {
	var first *x509.RevocationList
	for _, list := range f.Lists {
		if first == nil || list.NextUpdate.Before(first.NextUpdate) {
			first = list
		}
	}
	return first
}

// mostLeft is the most time before the end of a list at which a newer one is overdue. Lists of
// CAs whose keys are kept elsewhere live for years.
const mostLeft = 30 * 24 * time.Hour

// Overdue returns what is wrong with the age of the lists at a time: half of the validity of
// one has passed. It is empty if a newer list need not be there yet.
func (f File) Overdue(now time.Time) string {
	first := f.First()
	if first == nil {
		return ""
	}
	end := first.NextUpdate.UTC().Format(time.RFC3339)
	switch left := first.NextUpdate.Sub(now); {
	case left <= 0:
		return fmt.Sprintf("the list of %s ended at %s: programs that check it refuse all certificates of this CA", first.Issuer, end)
	case left < min(first.NextUpdate.Sub(first.ThisUpdate)/2, mostLeft):
		return fmt.Sprintf("the list of %s ends at %s, and a newer one has not come", first.Issuer, end)
	}
	return ""
}
