package sqlstore

import (
	"io/fs"

	"github.com/pressly/goose/v3"
)

// NewestMigration returns the highest version among the migrations of a store.
func NewestMigration(dir fs.FS) (int64, error) {
	var top int64
	entries, err := fs.ReadDir(dir, ".")
	for _, e := range entries {
		v, err := goose.NumericComponent(e.Name())
		if err != nil {
			return 0, err
		}
		top = max(top, v)
	}
	return top, err
}
