// Package token manages the bootstrap tokens of a server, with which new nodes
// request their first certificates.
package token

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	tokens "k8s.io/cluster-bootstrap/token/util"
	"k8s.io/cluster-bootstrap/util/secrets"

	"github.com/certplane/certplane/internal/api/bootstrapnode"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/process/duration"
)

// Options describes a new token.
type Options struct {
	// TTL is the lifetime of the token; 0 means no limit.
	TTL time.Duration
	// Description is text for people.
	Description string
	// Groups are the groups of the token's user in addition to system:bootstrappers.
	Groups []string
	// Node is the only node that may join with the token; empty for any node.
	Node string
}

// Validate returns an error, with the flag, for a value that the server would not accept.
func (o Options) Validate() error {
	if o.TTL < 0 {
		return fmt.Errorf("--ttl is %s, want 0 or more", duration.Format(o.TTL))
	}
	for _, group := range o.Groups {
		if tokens.ValidateBootstrapGroupName(group) != nil {
			return fmt.Errorf("--groups %q is not a group of bootstrap tokens: it must start with %s:, like %s:rack-7",
				group, bootstrapapi.BootstrapDefaultGroup, bootstrapapi.BootstrapDefaultGroup)
		}
	}
	if problems := validation.IsDNS1123Subdomain(o.Node); o.Node != "" && len(problems) > 0 {
		return fmt.Errorf("--node %q is not a valid name for a node: %s", o.Node, problems[0])
	}
	return nil
}

// Until describes the end of validity of a token that is created now.
func (o Options) Until(now time.Time) string {
	if o.TTL == 0 {
		return "until it is deleted"
	}
	return "until " + now.Add(o.TTL).UTC().Format(time.RFC3339)
}

// ID returns the part of a token that is not secret.
func ID(token string) string {
	id, _, _ := strings.Cut(token, ".")
	return id
}

// secret returns the Secret object of token, which has the form ID.SECRET.
func (o Options) secret(token string, now time.Time) *corev1.Secret {
	id, secretPart, _ := strings.Cut(token, ".")
	data := map[string]string{
		bootstrapapi.BootstrapTokenIDKey:               id,
		bootstrapapi.BootstrapTokenSecretKey:           secretPart,
		bootstrapapi.BootstrapTokenUsageAuthentication: "true",
	}
	if o.TTL > 0 {
		data[bootstrapapi.BootstrapTokenExpirationKey] = now.Add(o.TTL).UTC().Format(time.RFC3339)
	}
	if o.Description != "" {
		data[bootstrapapi.BootstrapTokenDescriptionKey] = o.Description
	}
	if len(o.Groups) > 0 {
		data[bootstrapapi.BootstrapTokenExtraGroupsKey] = strings.Join(o.Groups, ",")
	}
	if o.Node != "" {
		data[bootstrapnode.SecretKey] = o.Node
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: tokens.BootstrapTokenSecretName(id)},
		Type:       bootstrapapi.SecretTypeBootstrapToken,
		Data:       map[string][]byte{},
	}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}

// row is a token in a list.
type row struct {
	id, expires, node, groups, description string
}

func rowOf(secret corev1.Secret, now time.Time) (row, bool) {
	id, ok := secrets.ParseName(secret.Name)
	if !ok {
		return row{}, false
	}
	return row{
		id:          id,
		expires:     expires(&secret, now),
		node:        secrets.GetData(&secret, bootstrapnode.SecretKey),
		groups:      groups(&secret),
		description: secrets.GetData(&secret, bootstrapapi.BootstrapTokenDescriptionKey),
	}, true
}

// expired replaces the time in the row of an expired token.
const expired = "expired"

func expires(secret *corev1.Secret, now time.Time) string {
	switch left, ended := secrets.GetExpiration(secret, now); {
	case ended:
		return expired
	case left == 0:
		return "never"
	default:
		return "in " + print.Span(left)
	}
}

func groups(secret *corev1.Secret) string {
	names, err := secrets.GetGroups(secret)
	if err != nil {
		return "invalid"
	}
	return strings.Join(slices.Sorted(slices.Values(names)), ",")
}
