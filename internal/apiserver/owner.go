package apiserver

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/store/storespace"
	"github.com/certplane/certplane/internal/tenant"
	"github.com/certplane/certplane/internal/tenant/fairshare"
)

// Owners returns the tenants to which a key below prefix is charged. Encrypted
// requests are charged to their namespace, if they have one.
func Owners(prefix string) storespace.Owner {
	decoder := api.NewCodecs(false).UniversalDeserializer()
	return func(key string, value []byte, charge func(fairshare.Tenant, int64)) {
		parts := strings.Split(strings.TrimPrefix(strings.TrimPrefix(key, prefix), "/"), "/")
		if parts[0] == inventoryv1alpha1.GroupName {
			for payer, bytes := range inventory.Payers(value) {
				charge(tenant.Parse(payer), bytes)
			}
			return
		}
		charge(ownerOf(decoder, parts, value), int64(len(key)+len(value)))
	}
}

// ownerOf returns the tenant of an object, by the parts of its key below the prefix.
func ownerOf(decoder runtime.Decoder, parts []string, value []byte) fairshare.Tenant {
	switch parts[0] {
	case "certificatesigningrequests", "podcertificaterequests":
		if object, _, err := decoder.Decode(value, nil, nil); err == nil {
			return tenant.OfObject(object)
		}
	case "minions":
		if len(parts) == 2 {
			return tenant.OfNode(parts[1])
		}
	case v1alpha1.GroupVersion.Group:
		if len(parts) == 3 && acmeAccountResources[parts[1]] {
			return tenant.OfNamespace(labelOf(value, v1alpha1.AcmeNamespaceLabel))
		}
	}
	// Keys of custom resources begin with their group, which contains a
	// dot. See also storedUnder.
	if strings.Contains(parts[0], ".") || parts[0] == "services" {
		parts = parts[1:]
	}
	if len(parts) != 3 {
		return fairshare.Tenant{}
	}
	return tenant.OfNamespace(parts[1])
}

// acmeAccountResources are the resources without a namespace that count for the namespace of
// a ServiceAccount.
var acmeAccountResources = map[string]bool{"acmeaccounts": true, "acmeaccountkeys": true}

// labelOf returns a label of an object that is stored as JSON; empty if it has none, or
// is encrypted.
func labelOf(value []byte, label string) string {
	var object struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	if json.Unmarshal(value, &object) != nil {
		return ""
	}
	return object.Metadata.Labels[label]
}
