package inventory

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
)

// What a record keeps of the names of a certificate.
const (
	// maxNameBytes bounds the names, as JSON.
	maxNameBytes = 2 << 10
	// maxDigests limits the digests of names that do not fit.
	maxDigests = 1024
	// digestLength is the length of each digest: of four thousand million other names, one
	// has the same.
	digestLength = 4
)

// Presence is the answer of a record to the question whether a certificate has a name.
type Presence int

// The presences.
const (
	// Absent: it does not have the name.
	Absent Presence = iota
	// Possible: the name is not in the record, and the certificate may have it.
	Possible
	// Present: the name is in the record.
	Present
)

// HasName returns whether a certificate has a name, its common name included. name is in
// lower case.
func HasName(facts *inventoryv1alpha1.CertificateFacts, name string) Presence {
	return find(facts, name, func(has string) bool { return strings.ToLower(has) == name })
}

// IsBelow returns whether a certificate has a DNS name below a domain, which is in lower
// case, such as corp.example. Wildcards of the domain are below it; the domain itself is not.
func IsBelow(facts *inventoryv1alpha1.CertificateFacts, domain string) Presence {
	suffix := "." + domain
	return find(facts, suffix, func(has string) bool { return isDNSName(has) && strings.HasSuffix(strings.ToLower(has), suffix) })
}

// find reports whether one of the names of a certificate satisfies is, or whether the
// digest of text is among the digests of its omitted names.
func find(facts *inventoryv1alpha1.CertificateFacts, text string, is func(name string) bool) Presence {
	switch {
	case facts.CommonName != "" && is(facts.CommonName):
		return Present
	case slices.ContainsFunc(facts.DNSNames, is), slices.ContainsFunc(facts.IPAddresses, is),
		slices.ContainsFunc(facts.URIs, is), slices.ContainsFunc(facts.EmailAddresses, is):
		return Present
	case facts.OmittedNames > 0 && hasDigest(facts.OmittedNameDigests, NameDigest(text)):
		return Possible
	}
	return Absent
}

func hasDigest(digests []byte, digest string) bool {
	if len(digests) == 0 {
		return true // there were too many
	}
	for known := range slices.Chunk(digests, digestLength) {
		if string(known) == digest {
			return true
		}
	}
	return false
}

// NameDigest returns the digest of a name in lower case, as records have it.
func NameDigest(name string) string {
	digest := sha256.Sum256([]byte(name))
	return string(digest[:digestLength])
}

// names returns the names in a record as they are compared: in lower case.
func names(record *inventoryv1alpha1.IssuedCertificate) []string {
	names := AlternativeNames(&record.Certificate)
	if record.Certificate.CommonName != "" {
		names = append(names, record.Certificate.CommonName)
	}
	for i := range names {
		names[i] = strings.ToLower(names[i])
	}
	return names
}

// AlternativeNames returns the subject alternative names of a certificate that its record
// has.
func AlternativeNames(facts *inventoryv1alpha1.CertificateFacts) []string {
	return slices.Concat(facts.DNSNames, facts.IPAddresses, facts.URIs, facts.EmailAddresses)
}

// BoundNames removes the names that do not fit into a record, and adds their digests. It
// does not change facts that already omit names.
func BoundNames(facts *inventoryv1alpha1.CertificateFacts) {
	if facts.OmittedNames > 0 {
		return
	}
	size, digests := 0, map[string]bool{}
	hasRoom := func(name string) bool {
		if s := jsonSize(name); size+s <= maxNameBytes {
			size += s
			return true
		}
		facts.OmittedNames++
		addDigests(digests, name)
		return false
	}
	if facts.CommonName != "" && !hasRoom(facts.CommonName) {
		facts.CommonName = ""
	}
	for _, names := range []*[]string{&facts.DNSNames, &facts.IPAddresses, &facts.URIs, &facts.EmailAddresses} {
		*names = slices.DeleteFunc(slices.Clone(*names), func(name string) bool { return !hasRoom(name) })
	}
	if len(digests) <= maxDigests {
		facts.OmittedNameDigests = []byte(strings.Join(slices.Sorted(maps.Keys(digests)), ""))
	}
}

// addDigests adds the digests of a name and of the domains above it, until the limit is
// reached.
func addDigests(to map[string]bool, name string) {
	if len(to) > maxDigests {
		return
	}
	name = strings.ToLower(name)
	to[NameDigest(name)] = true
	if !isDNSName(name) {
		return
	}
	for rest := name; len(to) <= maxDigests; {
		dot := strings.IndexByte(rest[1:], '.') // the first character is a dot from the second domain on
		if dot < 0 {
			return
		}
		rest = rest[1+dot:]
		to[NameDigest(rest)] = true
	}
}

// isDNSName reports whether one of the names of a certificate may be a DNS name: others have
// other characters.
func isDNSName(name string) bool {
	const longest = 255 // RFC 1035 2.3.4
	return name != "" && len(name) <= longest && !strings.ContainsAny(name, "/:@")
}

// jsonSize returns how many bytes a name takes in a list in JSON.
func jsonSize(name string) int {
	data, _ := json.Marshal(name) // a string can be encoded
	return len(data) + len(",")
}
