package crp

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

var accountType = cel.ObjectType(serviceAccount)

// account is a service account as a value of expressions.
type account struct{ namespace, name string }

var _ ref.Val = account{}

// serviceAccounts are the functions of expressions for users that are service
// accounts: isServiceAccount(cr.username) and serviceAccount(cr.username), whose
// result has getName() and getNamespace().
func serviceAccounts() cel.EnvOption {
	functions := []cel.EnvOption{
		cel.Function("serviceAccount", cel.Overload("username_to_serviceaccount",
			[]*cel.Type{cel.StringType}, accountType, cel.UnaryBinding(toAccount))),
		cel.Function("isServiceAccount", cel.Overload("serviceaccount_is_sa",
			[]*cel.Type{cel.StringType}, cel.BoolType, cel.UnaryBinding(isAccount))),
		cel.Function("getName", cel.MemberOverload("serviceaccount_get_name",
			[]*cel.Type{accountType}, cel.StringType, ofAccount(func(a account) string { return a.name }))),
		cel.Function("getNamespace", cel.MemberOverload("serviceaccount_get_namespace",
			[]*cel.Type{accountType}, cel.StringType, ofAccount(func(a account) string { return a.namespace }))),
	}
	return func(env *cel.Env) (*cel.Env, error) {
		var err error
		for _, function := range functions {
			if env, err = function(env); err != nil {
				return nil, err
			}
		}
		return env, nil
	}
}

func toAccount(value ref.Val) ref.Val {
	username, ok := value.Value().(string)
	if !ok {
		return types.MaybeNoSuchOverloadErr(value)
	}
	namespace, name, err := serviceaccount.SplitUsername(username)
	if err != nil {
		return types.NewErr("Unable to convert to serviceaccount: err: %s, username: %s", err, username)
	}
	return account{namespace: namespace, name: name}
}

func isAccount(value ref.Val) ref.Val {
	username, ok := value.Value().(string)
	if !ok {
		return types.MaybeNoSuchOverloadErr(value)
	}
	_, _, err := serviceaccount.SplitUsername(username)
	return types.Bool(err == nil)
}

func ofAccount(part func(account) string) cel.OverloadOpt {
	return cel.UnaryBinding(func(value ref.Val) ref.Val {
		a, ok := value.(account)
		if !ok {
			return types.MaybeNoSuchOverloadErr(value)
		}
		return types.String(part(a))
	})
}

// ConvertToNative returns the account itself or its user name.
func (a account) ConvertToNative(native reflect.Type) (any, error) {
	switch {
	case reflect.TypeFor[account]().AssignableTo(native):
		return a, nil
	case reflect.TypeFor[string]().AssignableTo(native):
		return serviceaccount.MakeUsername(a.namespace, a.name), nil
	}
	return nil, fmt.Errorf("type conversion error from 'serviceaccount' to '%v'", native)
}

// ConvertToType returns the account itself or its type.
func (a account) ConvertToType(to ref.Type) ref.Val {
	switch to {
	case accountType:
		return a
	case types.TypeType:
		return accountType
	}
	return types.NewErr("type conversion error from '%s' to '%s'", accountType, to)
}

// Equal reports whether the other value is the same account.
func (a account) Equal(other ref.Val) ref.Val {
	b, ok := other.(account)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return types.Bool(a == b)
}

// Type returns the type of service accounts.
func (a account) Type() ref.Type { return accountType }

// Value returns the account.
func (a account) Value() any { return a }
