package apiserver

import (
	"strings"

	"github.com/certplane/certplane/internal/api"
	"github.com/certplane/certplane/internal/share"
	"github.com/certplane/certplane/internal/storespace"
	"github.com/certplane/certplane/internal/tenants"
)

// Owners tells which tenant answers for what is stored under a key below
// prefix. Requests that are encrypted count for their namespace, if they have
// one.
func Owners(prefix string) storespace.Owner {
	decoder := api.NewCodecs(false).UniversalDeserializer()
	return func(key string, value []byte) share.Tenant {
		parts := strings.Split(strings.TrimPrefix(strings.TrimPrefix(key, prefix), "/"), "/")
		switch parts[0] {
		case "certificatesigningrequests", "podcertificaterequests":
			if object, _, err := decoder.Decode(value, nil, nil); err == nil {
				return tenants.OfObject(object)
			}
		}
		// Resources of definitions are below their group, which has a dot. See
		// also storedUnder.
		if strings.Contains(parts[0], ".") || parts[0] == "services" {
			parts = parts[1:]
		}
		if len(parts) != 3 {
			return share.Tenant{}
		}
		return share.Tenant{Class: tenants.ClassNamespace, Name: parts[1]}
	}
}
