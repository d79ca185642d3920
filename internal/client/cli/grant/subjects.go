package grant

import (
	"errors"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// accountPrefix begins the user names of service accounts.
const accountPrefix = "system:serviceaccount:"

// Subjects are the users, groups and service accounts that get rights, as given in flags.
type Subjects struct {
	Users, Groups []string
	// Accounts are service accounts, as NAMESPACE/NAME.
	Accounts []string
}

// Parse returns the subjects of a binding, or an error that names the flag.
func (s Subjects) Parse() ([]rbacv1.Subject, error) {
	var all []rbacv1.Subject
	for _, name := range s.Users {
		subject, err := parseUser(name)
		if err != nil {
			return nil, err
		}
		all = append(all, subject)
	}
	for _, name := range s.Groups {
		if name == "" {
			return nil, errors.New("--group is empty: name a group")
		}
		all = append(all, rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name})
	}
	for _, name := range s.Accounts {
		subject, err := parseAccount(name)
		if err != nil {
			return nil, err
		}
		all = append(all, subject)
	}
	if len(all) == 0 {
		return nil, errors.New("name the subjects: --group, --user or --serviceaccount NAMESPACE/NAME")
	}
	return all, nil
}

// parseUser also accepts the user names of service accounts.
func parseUser(name string) (rbacv1.Subject, error) {
	if name == "" {
		return rbacv1.Subject{}, errors.New("--user is empty: name a user")
	}
	if account, isAccount := strings.CutPrefix(name, accountPrefix); isAccount {
		return parseAccount(account)
	}
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}, nil
}

// parseAccount also accepts kubectl's form, NAMESPACE:NAME.
func parseAccount(text string) (rbacv1.Subject, error) {
	namespace, name, found := strings.Cut(strings.Replace(text, ":", "/", 1), "/")
	if !found || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return rbacv1.Subject{}, fmt.Errorf("--serviceaccount %q: want NAMESPACE/NAME, such as shop/builder", text)
	}
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}, nil
}

// same reports whether two subjects are the same.
func same(a, b rbacv1.Subject) bool {
	return a.Kind == b.Kind && a.Namespace == b.Namespace && a.Name == b.Name
}

// nameOf returns the kind and the name of a subject.
func nameOf(s rbacv1.Subject) string {
	if s.Kind == rbacv1.ServiceAccountKind {
		return s.Kind + " " + s.Namespace + "/" + s.Name
	}
	return s.Kind + " " + s.Name
}
