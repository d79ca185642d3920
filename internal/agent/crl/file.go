// Package crl reads the revocation lists that a host needs.
package crl

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"math/big"
	"time"

	"github.com/certplane/certplane/internal/revocation"
)

// File is a file with revocation lists.
type File struct {
	Data  []byte
	Lists []List
}

// List describes a list in a file.
type List struct {
	// CA is the name of the CA.
	CA                     string
	Number                 *big.Int
	ThisUpdate, NextUpdate time.Time
	issuer, keyID          []byte
}

func describe(list *x509.RevocationList) List {
	return List{
		CA: list.Issuer.String(), Number: list.Number, ThisUpdate: list.ThisUpdate, NextUpdate: list.NextUpdate,
		issuer: list.RawIssuer, keyID: list.AuthorityKeyId,
	}
}

// Parse reads a file that was written earlier. A file of another program has no lists.
func Parse(data []byte) File {
	file := File{Data: data}
	lists, _ := revocation.ParseLists(data)
	for _, list := range lists {
		if list.Number != nil {
			file.Lists = append(file.Lists, describe(list))
		}
	}
	return file
}

// Follows returns an error if a list of the file is older than that of the same CA in the
// former file.
func (f File) Follows(former File) error {
	for _, next := range f.Lists {
		for _, last := range former.Lists {
			if bytes.Equal(next.issuer, last.issuer) && bytes.Equal(next.keyID, last.keyID) && next.Number.Cmp(last.Number) < 0 {
				return fmt.Errorf("the server's list of %s has the number %d, but the file has a later one, %d: if the server was restored, run certplane revocation resume --from with this file",
					next.CA, next.Number, last.Number)
			}
		}
	}
	return nil
}

// First returns the list that ends first; nil without lists.
func (f File) First() *List {
	var first *List
	for n := range f.Lists {
		if first == nil || f.Lists[n].NextUpdate.Before(first.NextUpdate) {
			first = &f.Lists[n]
		}
	}
	return first
}

// mostLeft is the most time before the end of a list at which a newer one is overdue. Lists of
// CAs whose keys are kept elsewhere live for years.
const mostLeft = 30 * 24 * time.Hour

// Overdue returns what is wrong with the age of the lists at a time; empty if a newer list need
// not be there yet. It must be when half of the validity of a list has passed.
func (f File) Overdue(now time.Time) string {
	first := f.First()
	if first == nil {
		return ""
	}
	end := first.NextUpdate.UTC().Format(time.RFC3339)
	switch left := first.NextUpdate.Sub(now); {
	case left <= 0:
		return fmt.Sprintf("the list of %s ended at %s: programs that check it refuse all certificates of this CA", first.CA, end)
	case left < min(first.NextUpdate.Sub(first.ThisUpdate)/2, mostLeft):
		return fmt.Sprintf("the list of %s ends at %s, and a newer one has not come", first.CA, end)
	}
	return ""
}
