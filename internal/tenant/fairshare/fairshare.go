// Package fairshare divides scarce resources between tenants, so that no tenant can use up
// the share of another.
package fairshare

// Tenant is a client or a group of clients with a separate share.
type Tenant struct {
	// Class is the kind of tenant. When a place becomes free, the class that has
	// the fewest places comes first, however many tenants another class has.
	Class string
	// Name is unique within the class.
	Name string
}
