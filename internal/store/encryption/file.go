// Package encryption holds the keys that encrypt secret objects in the store.
package encryption

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Keys is the content of a file of kind EncryptionConfiguration whose keys are in the file.
// The first key of a list encrypts; each key decrypts what was encrypted with it.
type Keys struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Resources  []resources `json:"resources"`
}

// resources selects how some resources are stored. The first provider encrypts.
type resources struct {
	Resources []string   `json:"resources"`
	Providers []provider `json:"providers"`
}

// provider has one field set. Providers without keys are kept unchanged.
type provider struct {
	Secretbox *keyList        `json:"secretbox,omitempty"`
	AESGCM    *keyList        `json:"aesgcm,omitempty"`
	AESCBC    *keyList        `json:"aescbc,omitempty"`
	KMS       json.RawMessage `json:"kms,omitempty"`
	Identity  *struct{}       `json:"identity,omitempty"`
}

type keyList struct {
	Keys []key `json:"keys"`
}

type key struct {
	Name   string `json:"name"`
	Secret string `json:"secret"`
}

// keyBytes is the size of a key of secretbox and of AES-256.
const keyBytes = 32

// New returns the configuration of a new store. It encrypts Secrets, and Certificates of
// cert-manager.io, which may contain passwords of keystores, with secretbox (XSalsa20 and
// Poly1305, whose 192-bit nonces may be random for any number of objects) by a new key.
// Values that were stored earlier, unencrypted, can still be read.
func New() *Keys {
	return &Keys{
		APIVersion: "apiserver.config.k8s.io/v1",
		Kind:       "EncryptionConfiguration",
		Resources: []resources{{
			Resources: []string{"secrets", "certificates.cert-manager.io"},
			Providers: []provider{{Secretbox: &keyList{[]key{newKey("key1")}}}, {Identity: &struct{}{}}},
		}},
	}
}

func newKey(name string) key {
	secret := make([]byte, keyBytes)
	rand.Read(secret) // never fails: crypto/rand ends the process instead
	return key{Name: name, Secret: base64.StdEncoding.EncodeToString(secret)}
}

// Parse reads what Encode wrote, or a file of the same kind that a person
// wrote. Its errors never contain a key.
func Parse(data []byte) (*Keys, error) {
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, errors.New("not YAML") // the error could quote a key
	}
	keys := &Keys{}
	strictErrs, err := kjson.UnmarshalStrict(asJSON, keys)
	if err != nil {
		return nil, err
	}
	if len(strictErrs) > 0 {
		return nil, strictErrs[0]
	}
	return keys, keys.check()
}

// check refuses keys that cannot be rotated.
func (k *Keys) check() error {
	if k.Kind != "EncryptionConfiguration" {
		return fmt.Errorf("kind is %q, must be EncryptionConfiguration", k.Kind)
	}
	if len(k.Resources) == 0 {
		return errors.New("resources is empty")
	}
	for i, r := range k.Resources {
		if len(r.Providers) == 0 || r.Providers[0].keys() == nil || len(r.Providers[0].keys().Keys) == 0 {
			return fmt.Errorf("resources[%d].providers[0] has no keys in this file: only secretbox, aesgcm and aescbc do", i)
		}
	}
	return nil
}

func (p provider) keys() *keyList {
	for _, keys := range []*keyList{p.Secretbox, p.AESGCM, p.AESCBC} {
		if keys != nil {
			return keys
		}
	}
	return nil
}

// Encode returns the file's content.
func (k *Keys) Encode() ([]byte, error) {
	data, err := yaml.Marshal(k)
	if err != nil {
		return nil, fmt.Errorf("encoding the encryption keys: %w", err)
	}
	const header = "# The keys that encrypt the store. This file and a copy of the store are enough\n" +
		"# to read it; without this file it cannot be read. Keep a backup of it, but not\n" +
		"# next to the store's backup. Change keys with \"certplane encryption rotate\".\n"
	return append([]byte(header), data...), nil
}

// Covered lists the resources that are stored encrypted, such as "secrets",
// "*.example.com" or "*.*".
func (k *Keys) Covered() []string {
	var covered []string
	for _, r := range k.Resources {
		covered = append(covered, r.Resources...)
	}
	return sorted(covered)
}

// Fingerprint identifies a set of keys without revealing a key.
func (k *Keys) Fingerprint() string {
	digest := sha256.New()
	digest.Write([]byte("certplane encryption keys\n"))
	for list := range k.lists() {
		for _, key := range list.Keys {
			digest.Write([]byte(key.Secret + "\n"))
		}
	}
	return hex.EncodeToString(digest.Sum(nil)[:16])
}

// KeyFingerprints identifies single keys without revealing them: the keys that
// encrypt, and all that decrypt.
func (k *Keys) KeyFingerprints() (encrypting, all []string) {
	for list := range k.lists() {
		for i, key := range list.Keys {
			digest := sha256.Sum256([]byte("certplane encryption key\n" + key.Secret + "\n"))
			fingerprint := "sha256:" + hex.EncodeToString(digest[:])
			if i == 0 {
				encrypting = append(encrypting, fingerprint)
			}
			all = append(all, fingerprint)
		}
	}
	return sorted(encrypting), sorted(all)
}

func sorted(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// lists yields the key lists that encrypt.
func (k *Keys) lists() func(yield func(*keyList) bool) {
	return func(yield func(*keyList) bool) {
		for _, r := range k.Resources {
			if !yield(r.Providers[0].keys()) {
				return
			}
		}
	}
}

// number is N of a key called keyN, and 0 of a key with another name.
func (k key) number() int {
	n, err := strconv.Atoi(strings.TrimPrefix(k.Name, "key"))
	if err != nil || !strings.HasPrefix(k.Name, "key") {
		return 0
	}
	return n
}
