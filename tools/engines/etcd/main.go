// Command etcd is etcd's own server under the name that the ecosystem's tools look for.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
