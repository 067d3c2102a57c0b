-- What each user did; etl sink init makes the tables that the sink keeps its books in.
CREATE TABLE user_counts (
  user_id bigint PRIMARY KEY,
  buy     bigint NOT NULL,
  cart    bigint NOT NULL,
  fav     bigint NOT NULL,
  spent   numeric NOT NULL
);
