// Package storerecord keeps in the store a record that a server must check before it changes
// anything in it: the format of the store, and the CAs and keys to which it belongs.
//
// The record is one etcd key, Store.Key. Each start of a server loads it and calls Decide,
// with the keys that Read finds in the folder pki, before it makes or changes anything. A
// program that transfers pki/ to another server must compare it with the same record:
// Record.Keys.Check.
//
// Planned changes can be written in any order. CAs are recorded by their public keys, so a
// renewal with the same key changes nothing. While a root is being replaced, both roots are
// in client-ca-root.crt, and Check accepts the keys if one root is on both sides. For
// encryption, the record contains the key that encrypts, and Check accepts a file that
// contains it in any place: during a rotation, the file contains the old and the new key.
package storerecord

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The formats of a store.
const (
	// FormatFirst is the format of servers that wrote no record.
	FormatFirst = 1
	// FormatKubernetes has Nodes and Services where Kubernetes has them.
	FormatKubernetes = 2
	// Format is the format that this program writes.
	Format = FormatKubernetes
)

// Record is the store's record about itself.
type Record struct {
	// Format is how objects are stored. A program leaves a store of a newer
	// format alone.
	Format int `json:"format"`
	// ID is random and tells stores apart.
	ID string `json:"id"`
	// WrittenBy is the version of the program that gave the store its format.
	WrittenBy string `json:"writtenBy"`
	// Keys are those that the store belongs to.
	Keys Keys `json:"keys"`
	// IssuingCA is the latest certificate of the client CA and its root, PEM, as
	// in client-ca.crt. By it a server learns that another one has renewed the
	// CA. It is empty if the CA has no root.
	IssuingCA string `json:"issuingCA,omitempty"`
	// ClusterResources is the namespace of the Secrets of ClusterIssuers where
	// the configuration names none. Empty: SystemNamespace, where older servers
	// have them.
	ClusterResources string `json:"clusterResources,omitempty"`
}

// The namespaces of Secrets of ClusterIssuers, in a new store and in one of an
// older server.
const (
	CertManagerNamespace = "cert-manager"
	SystemNamespace      = "kube-system"
)

// ClusterResourceNamespace is the namespace of the Secrets of ClusterIssuers, unless the
// configuration sets another.
func (r Record) ClusterResourceNamespace() string { return cmp.Or(r.ClusterResources, SystemNamespace) }

// Keys are the fingerprints of a server's CAs and keys.
type Keys struct {
	// ClientCA are the roots of client certificates that the server trusts.
	ClientCA []string `json:"clientCA"`
	// ServingCA are the CAs that clients trust.
	ServingCA []string `json:"servingCA"`
	// ServiceAccount is the key that signs tokens of service accounts.
	ServiceAccount []string `json:"serviceAccount"`
	// Encryption are the keys that encrypt stored objects; none if pki/ does not contain
	// them.
	Encryption []string `json:"encryption,omitempty"`

	// decrypting are all keys that can decrypt stored values. They are not
	// recorded.
	decrypting []string
	// elsewhere reports that stored values are not encrypted with keys in pki/.
	elsewhere bool
}

// WithoutEncryption returns the keys of a server whose configuration names the
// file with the keys of encryption.
func (k Keys) WithoutEncryption() Keys {
	k.Encryption, k.decrypting, k.elsewhere = nil, nil, true
	return k
}

// part is one kind of keys, with those recorded and those found.
type part struct {
	name, file      string
	recorded, found []string
	// all reports that all recorded keys must be found, not only one.
	all bool
}

func (k Keys) compare(found Keys) []part {
	parts := []part{
		{name: "client CA", file: "client-ca-root.crt and client-ca.crt", recorded: k.ClientCA, found: found.ClientCA},
		{name: "serving CA", file: "serving-ca.crt", recorded: k.ServingCA, found: found.ServingCA},
		{name: "service account key", file: "service-account.key", recorded: k.ServiceAccount, found: found.ServiceAccount},
	}
	if found.elsewhere {
		return parts
	}
	return append(parts, part{name: "encryption key", file: "encryption.yaml", recorded: k.Encryption, found: found.decrypting, all: true})
}

// fits reports whether the keys found can be used for those recorded.
func (p part) fits() bool {
	known := func(fingerprint string) bool { return slices.Contains(p.found, fingerprint) }
	if len(p.recorded) == 0 {
		return true
	}
	if p.all {
		return !slices.ContainsFunc(p.recorded, func(f string) bool { return !known(f) })
	}
	return slices.ContainsFunc(p.recorded, known)
}

func (p part) problem() string {
	if len(p.found) == 0 {
		return fmt.Sprintf("the %s is missing (%s)", p.name, p.file)
	}
	return fmt.Sprintf("the %s is another: %s has %s, the store has recorded %s", p.name, p.file, short(p.found), short(p.recorded))
}

// short returns enough of fingerprints to compare them by eye.
func short(fingerprints []string) string {
	const shown = len("sha256:") + 16
	var all []string
	for _, fingerprint := range fingerprints {
		all = append(all, fingerprint[:min(shown, len(fingerprint))])
	}
	return strings.Join(all, " and ")
}

// MismatchError lists the keys that do not fit a store.
type MismatchError struct {
	Problems []string
	// EncryptionOnly reports that only the encryption key differs. Then only the
	// stored values show whether they can be decrypted.
	EncryptionOnly bool
}

func (e *MismatchError) Error() string { return strings.Join(e.Problems, "; ") }

// Check compares the keys of a store with those that were found. Its error is
// a *MismatchError.
func (k Keys) Check(found Keys) error {
	mismatch := &MismatchError{EncryptionOnly: true}
	for _, part := range k.compare(found) {
		if !part.fits() {
			mismatch.Problems = append(mismatch.Problems, part.problem())
			mismatch.EncryptionOnly = mismatch.EncryptionOnly && part.all
		}
	}
	if len(mismatch.Problems) == 0 {
		return nil
	}
	return mismatch
}

// Missing lists the keys that a server would make because they do not exist.
func (k Keys) Missing() []string {
	var missing []string
	for _, part := range k.compare(k) {
		if len(part.found) == 0 {
			missing = append(missing, part.problem())
		}
	}
	return missing
}

// Equal reports whether both have the same record.
func (k Keys) Equal(other Keys) bool {
	return slices.Equal(k.ClientCA, other.ClientCA) && slices.Equal(k.ServingCA, other.ServingCA) &&
		slices.Equal(k.ServiceAccount, other.ServiceAccount) && slices.Equal(k.Encryption, other.Encryption)
}
