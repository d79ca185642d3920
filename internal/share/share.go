// Package share divides what is scarce between tenants, so that none can take
// what others need.
package share

// Tenant is who has a share of its own.
type Tenant struct {
	// Class is what kind of tenant it is. Where a place becomes free, the class
	// that has the fewest comes first, however many tenants another class has.
	Class string
	// Name is unique within the class.
	Name string
}
