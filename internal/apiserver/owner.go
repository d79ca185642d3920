package apiserver

import (
	"strings"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api"
	"github.com/certplane/certplane/internal/share"
	"github.com/certplane/certplane/internal/storespace"
	"github.com/certplane/certplane/internal/tenants"
)

// Owners returns the tenant to which a key below prefix is charged. Encrypted
// requests are charged to their namespace, if they have one.
func Owners(prefix string) storespace.Owner {
	decoder := api.NewCodecs(false).UniversalDeserializer()
	return func(key string, value []byte) share.Tenant {
		parts := strings.Split(strings.TrimPrefix(strings.TrimPrefix(key, prefix), "/"), "/")
		switch parts[0] {
		case "certificatesigningrequests", "podcertificaterequests":
			if object, _, err := decoder.Decode(value, nil, nil); err == nil {
				return tenants.OfObject(object)
			}
		case inventoryv1alpha1.GroupName: // records of certificates, which nobody can delete
			return share.Tenant{}
		}
		// Keys of custom resources begin with their group, which contains a
		// dot. See also storedUnder.
		if strings.Contains(parts[0], ".") || parts[0] == "services" {
			parts = parts[1:]
		}
		if len(parts) != 3 {
			return share.Tenant{}
		}
		return share.Tenant{Class: tenants.ClassNamespace, Name: parts[1]}
	}
}
