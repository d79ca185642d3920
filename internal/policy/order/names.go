package order

import (
	"encoding/json"
	"fmt"
	"hash/fnv"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// maxBase is how many characters of the name of a request, or of an Order, are
// in the names of the objects made for it.
const maxBase = 52

// Name returns the name of the Order for a request. cert-manager gives the same
// name, so that each of the two finds the Orders of the other.
func Name(kind v1alpha1.RequestKind, requestName string, spec acmev1.OrderSpec) (string, error) {
	spec.Request = nil
	var hashed any = spec
	if len(requestName) >= maxBase {
		hashed = named(kind, requestName, spec)
	}
	return nameFor(requestName, hashed)
}

// named returns what is hashed if the whole name of the request is not in the
// name of its Order.
func named(kind v1alpha1.RequestKind, requestName string, spec acmev1.OrderSpec) any {
	if kind == v1alpha1.CertificateSigningRequests {
		return struct {
			Name string           `json:"certificateSigningRequestName"`
			Spec acmev1.OrderSpec `json:"spec"`
		}{requestName, spec}
	}
	return struct {
		Name string           `json:"certificateRequestName"`
		Spec acmev1.OrderSpec `json:"spec"`
	}{requestName, spec}
}

// ChallengeName returns the name of a Challenge of an Order. The key is not part
// of it: the name is known without the account.
func ChallengeName(orderName string, spec acmev1.ChallengeSpec) (string, error) {
	spec.Key = ""
	return nameFor(orderName, spec)
}

// nameFor returns a name made of the beginning of another one and a hash.
func nameFor(base string, hashed any) (string, error) {
	encoded, err := json.Marshal(hashed)
	if err != nil {
		return "", fmt.Errorf("encoding the input of a name: %w", err)
	}
	hash := fnv.New32()
	_, _ = hash.Write(encoded) // it never fails
	return fmt.Sprintf("%s-%d", shorten(base), hash.Sum32()), nil
}

// shorten cuts a name to maxBase characters, so that it ends with a letter or a
// digit.
func shorten(name string) string {
	if len(name) < maxBase {
		return name
	}
	end := maxBase
	for end > 0 && !isAlphanumeric(name[end-1]) {
		end--
	}
	return name[:end]
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
