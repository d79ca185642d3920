// Package live indexes the challenges that an ACME server may ask about at this moment.
package live

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// Challenge is the data to answer for one Challenge.
type Challenge struct {
	types.NamespacedName
	UID     types.UID
	Type    acmev1.ACMEChallengeType
	Created time.Time
	// Host is the name or the address to be proven, as Host returns it.
	Host string
	// Token is unique; Key is the key authorization.
	Token, Key string
}

// of returns what is needed to answer for a Challenge.
func of(ch *acmev1.Challenge) Challenge {
	return Challenge{
		NamespacedName: types.NamespacedName{Namespace: ch.Namespace, Name: ch.Name},
		UID:            ch.UID, Type: ch.Spec.Type, Created: ch.CreationTimestamp.Time,
		Host: Host(ch.Spec.DNSName), Token: ch.Spec.Token, Key: ch.Spec.Key,
	}
}

// isLive reports whether the ACME server may ask about a Challenge: it is being
// processed, or its answer was presented and not yet removed. While it waits for
// its turn again, or for the ACME server, only the second is true.
func isLive(ch *acmev1.Challenge) bool {
	switch {
	case ch.Spec.Type != acmev1.ACMEChallengeTypeHTTP01 && ch.Spec.Type != certmanager.TypeTLSALPN01:
		return false
	case ch.Spec.Token == "" || ch.Spec.Key == "":
		return false
	case ch.DeletionTimestamp != nil || isFinal(ch.Status.State):
		return false
	}
	return ch.Status.Processing || ch.Status.Presented
}

func isFinal(state acmev1.State) bool {
	return slices.Contains([]acmev1.State{acmev1.Valid, acmev1.Invalid, acmev1.Expired, acmev1.Errored}, state)
}

// Host returns the form in which names and addresses are compared: in lower
// case, without a final dot, and addresses in their shortest form, without
// brackets.
func Host(text string) string {
	bare := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	if address, err := netip.ParseAddr(bare); err == nil {
		return address.Unmap().WithZone("").String()
	}
	return strings.ToLower(strings.TrimSuffix(text, "."))
}
