package inventory

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
)

// condition is a field of field selectors whose value is a condition on records, not a
// value in records.
//
// It reports whether a record meets the condition. normalizers holds the functions that
// normalize values.
type condition func(record *inventoryv1alpha1.IssuedCertificate, value string) Presence

var conditions = map[string]condition{
	inventoryv1alpha1.NameField: func(r *inventoryv1alpha1.IssuedCertificate, name string) Presence {
		return HasName(&r.Certificate, name)
	},
	inventoryv1alpha1.UnderField: func(r *inventoryv1alpha1.IssuedCertificate, domain string) Presence {
		return max(HasName(&r.Certificate, domain), IsBelow(&r.Certificate, domain))
	},
	inventoryv1alpha1.IssuedSinceField: func(r *inventoryv1alpha1.IssuedCertificate, at string) Presence {
		return present(r.CreationTimestamp.Unix() >= Number(at))
	},
	inventoryv1alpha1.IssuedBeforeField: func(r *inventoryv1alpha1.IssuedCertificate, at string) Presence {
		return present(r.CreationTimestamp.Unix() < Number(at))
	},
	inventoryv1alpha1.LongerThanField: func(r *inventoryv1alpha1.IssuedCertificate, length string) Presence {
		return present(Life(r) > Number(length))
	},
	inventoryv1alpha1.WeakerThanField: func(r *inventoryv1alpha1.IssuedCertificate, keyType string) Presence {
		return present(isWeaker(r.Certificate.KeyType, keyType))
	},
	inventoryv1alpha1.RevokedField: func(r *inventoryv1alpha1.IssuedCertificate, is string) Presence {
		return present(strconv.FormatBool(r.Revocation != nil) == is)
	},
}

// normalizers return the values of fields as records have them, or as conditions take them.
var normalizers = map[string]func(value string) (string, error){
	inventoryv1alpha1.NameField:               lower,
	inventoryv1alpha1.UnderField:              domain,
	inventoryv1alpha1.IssuedSinceField:        seconds,
	inventoryv1alpha1.IssuedBeforeField:       seconds,
	inventoryv1alpha1.LongerThanField:         length,
	inventoryv1alpha1.WeakerThanField:         sizedKeyType,
	inventoryv1alpha1.KeyFingerprintField:     keyFingerprint,
	inventoryv1alpha1.KeyTypeField:            keyType,
	inventoryv1alpha1.SignatureAlgorithmField: signatureAlgorithm,
	inventoryv1alpha1.RevokedField:            trueOrFalse,
}

// IsCondition reports whether the value of a field is a condition on records, not a value
// in records.
func IsCondition(field string) bool { return conditions[field] != nil }

func present(is bool) Presence {
	if is {
		return Present
	}
	return Absent
}

// Fits returns whether a record has a value in a field that field selectors can name.
func Fits(record *inventoryv1alpha1.IssuedCertificate, field, value string) Presence {
	if meets := conditions[field]; meets != nil {
		return meets(record, value)
	}
	if of := Fields[field]; of != nil {
		for _, has := range of(record) {
			if has == value {
				return Present
			}
		}
	}
	return Absent
}

// HasText reports whether the JSON of each record that has a value in a field has that text,
// in any case, unless it leaves out names.
func HasText(field string) bool {
	if field == inventoryv1alpha1.DecisionField {
		return false
	}
	return !IsCondition(field) || field == inventoryv1alpha1.NameField || field == inventoryv1alpha1.UnderField
}

// Domains returns the domains that names in a record are below, without those that are among
// the names.
func Domains(record *inventoryv1alpha1.IssuedCertificate) []string {
	var domains []string
	all := names(record)
	for _, name := range all {
		if !isDNSName(name) {
			continue
		}
		for _, rest, below := strings.Cut(name, "."); below; _, rest, below = strings.Cut(rest, ".") {
			if !slices.Contains(domains, rest) && !slices.Contains(all, rest) {
				domains = append(domains, rest)
			}
		}
	}
	return domains
}

// Life returns how long a certificate is valid, in seconds.
func Life(record *inventoryv1alpha1.IssuedCertificate) int64 {
	return record.Certificate.NotAfter.Unix() - record.Certificate.NotBefore.Unix()
}

// Number returns the number of a value of a condition, 0 if it is none.
func Number(value string) int64 {
	number, _ := strconv.ParseInt(value, 10, 64) // normalize has made it
	return number
}

// keyFingerprint returns a digest in lower case, without colons.
func keyFingerprint(value string) (string, error) {
	digest := strings.ToLower(strings.ReplaceAll(value, ":", ""))
	if octets, err := hex.DecodeString(digest); err != nil || len(octets) != sha256.Size {
		return "", fmt.Errorf("%q is not the SHA-256 digest of a public key: want 64 hexadecimal digits, as 'openssl pkey -in tls.key -pubout -outform DER | sha256sum' prints", value)
	}
	return digest, nil
}

func trueOrFalse(value string) (string, error) {
	if value != "true" && value != "false" {
		return "", fmt.Errorf("%q is neither true nor false", value)
	}
	return value, nil
}

func lower(value string) (string, error) { return strings.ToLower(value), nil }

// domain returns a domain in lower case, without dots around it.
func domain(value string) (string, error) {
	domain := strings.Trim(strings.ToLower(value), ".")
	if domain == "" || strings.ContainsAny(domain, "*/:@ ") {
		return "", fmt.Errorf("%q is not a domain, such as corp.example: names below it are found, wildcards too", value)
	}
	return domain, nil
}

// seconds returns a time in seconds since 1970.
func seconds(value string) (string, error) {
	at, err := ParseTime(value)
	if err != nil {
		return "", err
	}
	return strconv.FormatInt(at.Unix(), 10), nil
}

// ParseTime reads a time as RFC 3339 has it, a day in UTC, or seconds since 1970.
func ParseTime(value string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, value); err == nil {
			return at, nil
		}
	}
	if number, err := strconv.ParseInt(value, 10, 64); err == nil {
		return time.Unix(number, 0), nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time, such as 2026-11-30 or 2026-11-30T08:00:00Z", value)
}

// length returns a length of time in seconds: of days such as 90d, a duration of Go, or
// seconds.
func length(value string) (string, error) {
	if _, err := strconv.ParseUint(value, 10, 63); err == nil {
		return value, nil
	}
	if days, err := strconv.ParseUint(strings.TrimSuffix(value, "d"), 10, 32); err == nil {
		return strconv.FormatUint(days*24*60*60, 10), nil
	}
	length, err := time.ParseDuration(value)
	if err != nil || length < 0 {
		return "", fmt.Errorf("%q is not a duration, such as 90d or 36h", value)
	}
	return strconv.FormatInt(int64(length/time.Second), 10), nil
}

var (
	rsaType   = regexp.MustCompile(`^(?i:rsa)(?:[- ]?([0-9]+))?$`)
	ecdsaType = regexp.MustCompile(`^(?i:ecdsa)(?:[- ]?(?i:p)-?([0-9]+))?$`)
)

// keyType returns the type of a key as records have it: RSA-2048 is RSA 2048. RSA and ECDSA
// alone are all such keys.
func keyType(value string) (string, error) {
	if strings.EqualFold(value, "ed25519") {
		return "Ed25519", nil
	}
	if found := rsaType.FindStringSubmatch(value); found != nil {
		return strings.TrimSpace("RSA " + found[1]), nil
	}
	if found := ecdsaType.FindStringSubmatch(value); found != nil {
		if found[1] == "" {
			return "ECDSA", nil
		}
		return "ECDSA P-" + found[1], nil
	}
	return "", fmt.Errorf("%q is not a type of key: want %s", value, strings.Join(KeyTypes, ", "))
}

// KeyTypes are examples of what the field of key types takes.
var KeyTypes = []string{"RSA", "RSA-2048", "RSA-3072", "RSA-4096", "ECDSA", "ECDSA-P256", "ECDSA-P384", "ECDSA-P521", "Ed25519"}

func sizedKeyType(value string) (string, error) {
	known, err := keyType(value)
	if _, size := sizeOf(known); err == nil && size == 0 {
		err = fmt.Errorf("%q has no size: want a type of key such as RSA-3072 or ECDSA-P384", value)
	}
	return known, err
}

// sizeOf returns the algorithm of a type of key, and its size; 0 if it has none.
func sizeOf(keyType string) (algorithm string, size int64) {
	algorithm, rest, _ := strings.Cut(keyType, " ")
	return algorithm, Number(strings.TrimPrefix(rest, "P-"))
}

// isWeaker reports whether a key is smaller than another one of the same algorithm.
func isWeaker(keyType, than string) bool {
	algorithm, size := sizeOf(keyType)
	other, bound := sizeOf(than)
	return algorithm == other && size < bound
}

// keyTypes are the values of the field of key types: the type, and all such keys.
func keyTypes(record *inventoryv1alpha1.IssuedCertificate) []string {
	whole := record.Certificate.KeyType
	if algorithm, _, sized := strings.Cut(whole, " "); sized {
		return []string{whole, algorithm}
	}
	return []string{whole}
}

// signatureAlgorithms are the values of the field of signature algorithms, in lower case:
// the algorithm, and its parts, such as sha1.
func signatureAlgorithms(record *inventoryv1alpha1.IssuedCertificate) []string {
	whole := strings.ToLower(record.Certificate.SignatureAlgorithm)
	if parts := strings.Split(whole, "-"); len(parts) > 1 {
		return append(parts, whole)
	}
	return []string{whole}
}

func signatureAlgorithm(value string) (string, error) {
	return strings.ReplaceAll(strings.ToLower(value), "sha-", "sha"), nil
}
